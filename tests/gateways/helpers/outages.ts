import * as assert from 'uvu/assert';
import { keyShard } from '../../../shared/values/key-text.ts';
import { waitingEvents } from '../../helpers/outbox.ts';
import { eventually } from '../../helpers/world.ts';
import { bearer, type Setting, type Test } from './setting.ts';

// GATEWAY_REQUESTS=10000 make test FILE=gateways sends more.
const REQUESTS = Number(process.env.GATEWAY_REQUESTS ?? 2_000);
const AT_ONCE = 16;

/** While keytally is down or slow nobody passes, and after it every request is counted. */
export function testOutages(test: Test, setting: Setting): void {
  const send = () => setting.gateway.send('/documents', { headers: bearer(setting.clients.good.key) });
  const untilRequestsPass = () => eventually('requests pass again', async () => (await send()).status === 200);

  test('while keytally is down nobody passes, and right after it everybody does', async () => {
    const { wire, api } = setting;
    await wire.cut();
    const { status } = await send();
    assert.ok(status >= 500, `answered ${status}`);
    assert.is(api.reached.length, 0);
    await wire.mend();
    await untilRequestsPass();
  });

  test('while keytally is slow nobody passes, and nobody waits for long', async () => {
    const { process } = setting.world.verify!;
    // The other one waits as long as a busy machine needs.
    const hasty = await setting.startWith(setting.clients.token, undefined, '2s');
    process.kill('SIGSTOP');
    try {
      const began = performance.now();
      const { status } = await hasty.send('/documents', { headers: bearer(setting.clients.good.key) });
      assert.ok(status >= 500, `answered ${status}`);
      assert.ok(performance.now() - began < 20_000);
      assert.is(setting.api.reached.length, 0);
    } finally {
      process.kill('SIGCONT');
      await hasty.stop();
    }
    // Verify first decides what was asked while it stood still, so later tests start with nothing pending.
    await untilRequestsPass();
  });

  test(`${REQUESTS} requests are counted right`, async () => {
    const { clients, redis } = setting;
    const shard = keyShard(clients.good.key)!;
    const eventsOf = async () => (await waitingEvents(redis, shard)).length;
    const [before, events] = [await clients.usedCredits(), await eventsOf()];
    let left = REQUESTS;
    const statuses: Record<number, number> = {};
    const worker = async () => {
      while (left-- > 0) {
        const { status } = await send();
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    assert.equal(statuses, { 200: REQUESTS });
    assert.is(await clients.usedCredits(), before + REQUESTS);
    assert.is(await eventsOf(), events + REQUESTS);
  });
}
