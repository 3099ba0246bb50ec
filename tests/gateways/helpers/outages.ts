import * as assert from 'uvu/assert';
import { eventually } from '../../helpers/world.ts';
import { bearer, type Cases, type Setting } from './setting.ts';

/** While keytally is down or slow, or the gateway's own token is wrong, nobody passes. */
export const outages: Cases = {
  async 'while keytally is down nobody passes, and right after it everybody does'(setting) {
    await setting.wire.cut();
    assert.ok((await send(setting)).status >= 500);
    assert.is(setting.api.reached.length, 0);
    await setting.wire.mend();
    await untilRequestsPass(setting);
  },

  async 'while keytally is slow nobody passes'(setting) {
    const { wire, api, clients } = setting;
    // The other one waits as long as a busy machine needs.
    const hasty = await setting.startWith(clients.token, undefined, '2s');
    wire.hang();
    try {
      assert.ok((await send(setting, hasty)).status >= 500);
      assert.is(api.reached.length, 0);
    } finally {
      await hasty.stop();
      await wire.cut();
      await wire.mend();
    }
    await untilRequestsPass(setting);
  },

  async 'with a wrong access token nobody passes, and an end client reads of an error, not of a token or a wrong key'(
    setting,
  ) {
    const wrong = await setting.startWith('kt_nobody');
    try {
      const { status, headers, text } = await send(setting, wrong);
      assert.ok(status === 500 || status === 503, `answered ${status}`);
      assert.not.match(`${JSON.stringify(headers)} ${text}`, /token|policy|invalid|www-authenticate/i);
      assert.is(setting.api.reached.length, 0);
    } finally {
      await wrong.stop();
    }
  },
};

function send({ clients, ...setting }: Setting, gateway = setting.gateway) {
  return gateway.send('/documents', { headers: bearer(clients.good.key) });
}

function untilRequestsPass(setting: Setting) {
  return eventually('requests pass again', async () => (await send(setting)).status === 200);
}
