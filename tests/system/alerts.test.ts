import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../shared/values/ids.ts';
import { must, newWorkspace, joinWorkspace } from '../helpers/world.ts';

// Alerts, from a call to the list of what was told. tests/accounts has what crosses one and what does not.

const RECORDS = '/api/v1/customer-billing';
const LOW = { name: 'low', when: { usedPercent: 80 } };
const LEFT = { name: 'left', when: { available: '10' } };

const { world, workspaceId, customers } = await joinWorkspace();

type Told = { id: string; name: string; when: object; at: number; usedCredits: string; eventId: string };

test('each crossing is in the list once its event is booked, in pages, newest first, with what it was, when and by which event', async () => {
  const third = { name: 'third', when: { usedPercent: 90 } };
  const record = await newRecord({ alerts: [LOW, LEFT, third] });
  for (const usage of ['79.999999', '0.000001', '10']) await record.use(usage);
  const [second, first] = (await record.told('?limit=2')) as [Told, Told];
  const all = await record.told();
  assert.equal(new Set(all.slice(0, 2).map(({ name }) => name)), new Set(['left', 'third']));
  assert.equal([all.length, all[0], all[1]], [3, second, first]);
  const { id, name, when, at, usedCredits, eventId } = all[2]!;
  assert.equal([name, when, usedCredits], ['low', LOW.when, '80']);
  assert.match(`${id} ${eventId}`, /^alert_[0-9a-z]{26} evt_[0-9a-z]{26}$/);
  assert.ok(Number.isInteger(at));
});

test('defaultAlerts of a workspace hold for its records without alerts of their own, until they are cleared', async () => {
  const id = await newWorkspace(world, { defaultAlerts: [LOW] });
  const [plain, own] = [await newRecord({}, id), await newRecord({ alerts: [LEFT] }, id)];
  const none = await newRecord({ alerts: [] }, id);
  for (const { use } of [plain, own, none]) await use('80');
  await must(200, world.call('patch', `/api/v1/workspace/${id}`, { defaultAlerts: null }));
  const never = await newRecord({}, id);
  for (const { use } of [own, never]) await use('15');
  const names = async (record: typeof own) => (await record.told()).map(({ name }) => name);
  assert.equal(await Promise.all([plain, own, none, never].map(names)), [['low'], ['left'], [], []]);
});

async function newRecord(fields: object, of = workspaceId) {
  const externalMeterId = newId('evt');
  const body = { workspaceId: of, externalMeterId, totalCredits: '100', ...fields };
  const { billing } = (await must(201, world.call('post', RECORDS, body))).body;
  const key = { name: 'k', workspaceId: of, externalMeterId };
  const { apiKey } = (await must(201, world.call('post', '/api/v1/api-key', key))).body;
  return {
    use: (usage: string) => customers.spend(apiKey, usage),
    async told(query = ''): Promise<Told[]> {
      await world.booked();
      return (await must(200, world.call('get', `${RECORDS}/${billing.id}/alerts${query}`))).body.alerts;
    },
  };
}
