import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../shared/contract/errors.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../helpers/customers.ts';
import { eventually, once, spawnWorld } from '../helpers/world.ts';

// Every program is killed under load, and started again at its address as a supervisor does it.

const KEYS = 4;
const CALLERS = 8;

const world = await spawnWorld(['verify', 'consumer']);
const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'killed' }))).body.workspace.id;
const customers = makeCustomers(world, workspaceId);

test('kill -9 of verify, consumer and api under load: what was answered is debited and booked, once', async () => {
  const keys = await Promise.all(Array.from({ length: KEYS }, () => customers.meteredKey('1000000')));
  const load = startLoad(keys);
  for (const program of ['verify', 'consumer', 'api'] as const) {
    await load.untilMore(100);
    const { url } = world[program]!;
    await world[program]!.stop('SIGKILL');
    // So long nobody does its work.
    if (program !== 'verify') await load.untilMore(50);
    world[program] = await world.start(program, { PORT: new URL(url).port });
  }
  await load.untilMore(100);
  const made = await load.stop();
  await world.booked();

  for (const { key } of made)
    assert.is((await customers.verify({ key })).body.status, 'VALID', 'an answered key is there');
  for (const { meter } of keys) {
    const { id, usedCredits } = await customers.billing(meter);
    const answered = String(load.valid.get(meter));
    assert.equal([usedCredits, await customers.usage(meter)], [answered, answered]);
    const proof = await eventually('nothing is on its way', async () => {
      const { reconciliation } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`)))
        .body;
      return reconciliation.status === 'ON_ITS_WAY' ? undefined : reconciliation;
    });
    assert.equal([proof.status, proof.difference, proof.gaps, proof.losses], ['EXACT', '0', [], []]);
  }
});

/** Verifies keys and makes others all the time. Each call is repeated until it is decided, as a client does. */
function startLoad(keys: TestKey[]) {
  const valid = new Map(keys.map(({ meter }) => [meter, 0]));
  const made: { key: string }[] = [];
  let total = 0;
  let stopped = false;

  async function call(i: number): Promise<void> {
    while (!stopped) {
      const { key, meter } = keys[i % keys.length]!;
      const headers = once();
      const body = { key, billing: { usage: '1' } };
      await untilDecided(200, () => customers.verify(body, { headers }));
      valid.set(meter, valid.get(meter)! + 1);
      total += 1;
    }
  }
  async function make(): Promise<void> {
    while (!stopped) {
      const headers = once();
      const body = { name: 'k', workspaceId };
      const { apiKey } = await untilDecided(201, () => world.call('post', '/api/v1/api-key', body, { headers }));
      made.push(apiKey);
    }
  }
  const running = Promise.all([make(), ...Array.from({ length: CALLERS }, (_, i) => call(i))]);

  return {
    /** How often each meter's key was VALID. */
    valid,
    async untilMore(calls: number): Promise<void> {
      const before = total;
      await Promise.race([running, eventually(`${calls} more calls`, async () => total >= before + calls)]);
    },
    /** Ends once all calls are decided; gives the keys that were made. */
    async stop(): Promise<{ key: string }[]> {
      stopped = true;
      await running;
      return made;
    },
  };
}

/** A connection may be refused or cut; then nobody knows what became of the call. */
async function untilDecided(status: number, send: () => ReturnType<Customers['verify']>) {
  const { body } = await eventually('it is decided', async () => {
    const answer = await send().catch(() => undefined);
    if (answer === undefined || answer.status === 503 || answer.body?.error?.code === errors.idempotency_busy[0])
      return undefined;
    assert.is(answer.status, status, answer.text);
    if (status === 200) assert.is(answer.body.status, 'VALID', answer.text);
    return answer;
  });
  return body;
}
