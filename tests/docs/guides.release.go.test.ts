import { delimiter, dirname, isAbsolute } from 'node:path';
import { testGuide } from './helpers/guide.ts';

const { TEST_GO = '', GOCACHE, GOPATH, GOTOOLCHAIN, PATH } = process.env;

testGuide({
  page: 'docs/protect-go.md',
  program: { language: 'go', file: 'main.go' },
  env: {
    GOCACHE,
    GOPATH,
    GOTOOLCHAIN,
    GOPROXY: 'off',
    PATH: [...(isAbsolute(TEST_GO) ? [dirname(TEST_GO)] : []), PATH].join(delimiter),
  },
});
