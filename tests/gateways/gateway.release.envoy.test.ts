import { tryGateway } from './helpers/suite.ts';
import { example } from './helpers/gateway.ts';

await tryGateway(
  'Envoy',
  (write) => ({
    command: process.env.TEST_ENVOY!,
    args: [
      '-c',
      write('envoy.yaml', example('envoy/envoy.yaml')),
      ...'--use-dynamic-base-id --concurrency 1 -l error'.split(' '),
    ],
  }),
  { envelope: true, rateLimit: true, settles: true },
);
