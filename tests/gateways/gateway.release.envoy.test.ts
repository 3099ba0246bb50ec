import { tryGateway } from './helpers/suite.ts';
import { examplesOf } from './helpers/gateway.ts';

tryGateway(
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
  { envelope: true, rateLimit: true, settles: true },
);
