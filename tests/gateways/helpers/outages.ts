import * as assert from 'uvu/assert';
import { keyShard } from '../../../shared/values/key-text.ts';
import { waitingEvents } from '../../helpers/outbox.ts';
import { eventually } from '../../helpers/world.ts';
import { bearer, type Cases, type Setting } from './setting.ts';

const REQUESTS = 500;
const AT_ONCE = 16;

/** While keytally is down or slow, or the gateway's own token is wrong, nobody passes; after it every request is counted. */
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
      await wire.cut();
      await wire.mend();
    }
    await untilRequestsPass(setting);
  },

  async 'with a wrong access token nobody passes, and an end client reads of an error, not of a token or a wrong key'(
    setting,
  ) {
    const wrong = await setting.startWith('kt_nobody');
    const { status, headers, text } = await send(setting, wrong);
    assert.ok(status === 500 || status === 503, `answered ${status}`);
    assert.not.match(`${JSON.stringify(headers)} ${text}`, /token|policy|invalid|www-authenticate/i);
    assert.is(setting.api.reached.length, 0);
  },

  async 'requests at once are counted right'(setting) {
    const { clients, redis } = setting;
    const shard = keyShard(clients.good.key)!;
    const eventsOf = async () => (await waitingEvents(redis, shard)).length;
    const [before, events] = [await clients.usedCredits(), await eventsOf()];
    let left = REQUESTS;
    const statuses = new Set<number>();
    const worker = async () => {
      while (left-- > 0) statuses.add((await send(setting)).status);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    assert.equal([...statuses], [200]);
    assert.is(await clients.usedCredits(), before + REQUESTS);
    assert.is(await eventsOf(), events + REQUESTS);
  },
};

function send({ clients, ...setting }: Setting, gateway = setting.gateway) {
  return gateway.send('/documents', { headers: bearer(clients.good.key) });
}

function untilRequestsPass(setting: Setting) {
  return eventually('requests pass again', async () => (await send(setting)).status === 200);
}
