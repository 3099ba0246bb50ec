// The Go client of a release, as the go command takes it from a module proxy.
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../process/home.ts';
import { writeGoModule } from './go-module.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'go-release');
const proxy = join(folder, 'proxy');
const project = join(folder, 'project');
const version = '1.2.3';

test('go gets it from the folder by its version, checks it, and builds a program with it', async () => {
  mkdirSync(project, { recursive: true });
  writeGoModule({ source: checkout, version, committedAt: new Date('2026-11-23T08:00:00.7Z'), folder: proxy });
  await go('mod', 'init', 'example.com/project');
  await go('get', `keytally.dev/keytally@latest`);
  const program = `package main

import "keytally.dev/keytally"

func main() {
	if _, err := keytally.New(keytally.Options{}); err == nil {
		panic("a client without an address")
	}
}
`;
  writeFileSync(join(project, 'main.go'), program);
  await go('run', '.');
  const { Version, Time } = JSON.parse(await go('list', '-m', '-json', 'keytally.dev/keytally')) as Record<
    string,
    string
  >;
  assert.equal([Version, Time], [`v${version}`, '2026-11-23T08:00:00Z']);
  assert.match(await go('mod', 'verify'), /all modules verified/);
});

async function go(...args: string[]): Promise<string> {
  // A cache of its own: the one of the other tests may have another v1.2.3.
  const env = {
    ...process.env,
    GOPROXY: `file://${proxy}`,
    GOSUMDB: 'off',
    GOPATH: join(folder, 'path'),
    GOFLAGS: '-mod=mod -modcacherw',
  };
  return (await promisify(execFile)(process.env.TEST_GO!, args, { cwd: project, env })).stdout;
}
