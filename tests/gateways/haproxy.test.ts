import { testGateway } from './helpers/suite.ts';
import { examplesOf } from './helpers/gateway.ts';

testGateway(
  'HAProxy',
  (write) => {
    const [settings = '', script = ''] = examplesOf('HAProxy');
    const lua = write('keytally.lua', script);
    const file = write('haproxy.cfg', settings.replace('lua-load keytally.lua', `lua-load ${lua}`));
    return { command: process.env.TEST_HAPROXY!, args: ['-db', '-f', file] };
  },
  { envelope: true },
);
