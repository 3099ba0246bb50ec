import { testGateway } from './gateways-suite.ts';
import { examplesOf } from './gateways-testing.ts';

testGateway(
  'Caddy',
  (write) => {
    const file = write('Caddyfile', `{\n\tadmin off\n\tauto_https off\n}\n${examplesOf('Caddy')[0]}`);
    return { command: process.env.TEST_CADDY!, args: ['run', '--adapter', 'caddyfile', '--config', file] };
  },
  { envelope: true },
);
