import * as assert from 'uvu/assert';
import { tryGateway } from './helpers/suite.ts';
import { example } from './helpers/gateway.ts';
import { bearer } from './helpers/setting.ts';

// What a broken script does: HAProxy logs the error and goes on to the next rule.
const BROKEN = `
core.register_action('keytally', { 'http-req' }, function(txn, path) error('broken') end, 1)
core.register_action('keytally_settle', { 'http-res' }, function(txn) error('broken') end)
`;

await tryGateway(
  'HAProxy',
  (write) => begin(write, example('haproxy/keytally.lua')),
  { envelope: true, settles: true },
  {
    async 'an error in Lua lets nobody pass'({ clients, api, startWith }) {
      const broken = await startWith(clients.token, (write) => begin(write, BROKEN));
      for (const path of ['/documents', '/reports/1']) {
        const { status } = await broken.send(path, { headers: bearer(clients.good.key) });
        assert.is(status, 503, path);
      }
      assert.is(api.reached.length, 0);
    },
  },
);

function begin(write: (file: string, content: string) => string, script: string) {
  const lua = write('keytally.lua', script);
  const file = write('haproxy.cfg', example('haproxy/haproxy.cfg').replace('lua-load keytally.lua', `lua-load ${lua}`));
  return { command: process.env.TEST_HAPROXY!, args: ['-db', '-f', file] };
}
