import { tryGateway } from './helpers/suite.ts';
import { examplesOf } from './helpers/gateway.ts';

tryGateway(
  'Caddy',
  (write) => {
    const file = write('Caddyfile', `{\n\tadmin off\n\tauto_https off\n}\n${examplesOf('Caddy')[0]}`);
    return { command: process.env.TEST_CADDY!, args: ['run', '--adapter', 'caddyfile', '--config', file] };
  },
  { envelope: true },
);
