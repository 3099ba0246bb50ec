import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../shared/values/ids.ts';
import { testLine } from '../../tests/helpers/events.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';
import { notifyHolds } from './notify-holds.ts';

const own = await makeConsumerWorld();

test('a hold that nobody settled is told once as charged or released; one that was settled is not', async () => {
  const { workspaceId, billingId } = await own.storeKeyAndBilling();
  const heard = await own.listen(workspaceId);
  const holdId = () => newId('evt').slice('evt_'.length);
  const [released, charged] = [holdId(), holdId()];
  const of = { workspaceId, billingId, holdMicros: 2_000_000 };
  const lines = [
    testLine('release', { ...of, holdId: released, detail: 'expired' }),
    testLine('capture', { ...of, holdId: charged, detail: 'charged', costMicros: 2_000_000 }),
    testLine('release', { ...of, holdId: holdId() }),
    testLine('capture', { ...of, holdId: holdId(), costMicros: 1 }),
  ];
  for (let twice = 0; twice < 2; twice++) await notifyHolds(own.sql, own.redis.clock, lines);
  const told = (await heard('hold.expired')).map(({ data }) =>
    ['outcome', 'holdEventId', 'credits', 'externalMeterId'].map((name) => data[name] as string).join(' '),
  );
  assert.equal(told.toSorted(), [`charged evt_${charged} 2 m`, `released evt_${released} 2 m`]);
});
