import { testGateway } from './gateways-suite.ts';
import { examplesOf } from './gateways-testing.ts';

testGateway(
  'Envoy',
  (write) => ({
    command: process.env.TEST_ENVOY!,
    args: [
      '-c',
      write('envoy.yaml', examplesOf('Envoy')[0]!),
      '--use-dynamic-base-id',
      '--concurrency',
      '1',
      '-l',
      'error',
    ],
  }),
  { envelope: true, rateLimit: true },
);
