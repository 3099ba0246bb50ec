import { tryGateway } from './helpers/suite.ts';
import { example } from './helpers/gateway.ts';

await tryGateway(
  'Caddy',
  (write) => {
    const file = write('Caddyfile', `{\n\tadmin off\n\tauto_https off\n}\n${example('caddy/Caddyfile')}`);
    return { command: process.env.TEST_CADDY!, args: ['run', '--adapter', 'caddyfile', '--config', file] };
  },
  { envelope: true },
);
