import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  NEVER,
  PLAIN_CLASS,
  PLAIN_NUMBER,
  packAccountSettings,
  type PackedAlert,
} from '../../shared/stores/account-settings.ts';
import { packRecord } from '../../shared/stores/records.ts';
import { formatCredits, MAX_MICROS } from '../../shared/values/credits.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { declareDefaultAlerts, loadScripts, recordOfProduct } from './product-scripts.ts';
import { setClock, SHARD } from './test-shard.ts';

// Alerts in the scripts of the product, line by line of the contract.

const NOON = Date.UTC(2027, 0, 1, 12);

const { client } = (await connectTestRedis()).node(SHARD);

const percent = (value: number, name = 'low'): PackedAlert => ({ name, kind: 'usedPercent', value });
const available = (value: number, name = 'left'): PackedAlert => ({ name, kind: 'available', value });

type Wanted = { version?: number; credits?: number; ending?: number; alerts?: PackedAlert[] };

function settings(billingId: string, { version = 1, credits = 100, ending = 0, alerts }: Wanted): string {
  const nothing = { rollEndsAtMs: 0, rollMaxMicros: 0, firstVersion: 1, pending: [] };
  const endsAtMs = NOON + 10;
  const ended = {
    ...nothing,
    ref: `${'b'.padStart(17, '0')}:10:${endsAtMs}`,
    number: 2,
    priority: 10,
    endsAtMs,
    begunMicros: ending,
  };
  const plain = {
    ...nothing,
    ref: PLAIN_CLASS,
    number: PLAIN_NUMBER,
    priority: 50,
    endsAtMs: NEVER,
    begunMicros: credits,
  };
  const answerPart = `"totalCredits":"${formatCredits(credits)}","allowOverages":true`;
  return packAccountSettings({ version, billingId, answerPart }, ending > 0 ? [ended, plain] : [plain], alerts);
}

async function begin(wanted: Wanted) {
  const record = recordOfProduct(client, await loadScripts(client));
  await setClock(client, NOON);
  await record.startPlain(0n);
  await record.declare(settings(record.billingId, wanted));
  return { ...record, patch: (changed: Wanted) => record.declare(settings(record.billingId, changed)) };
}

/** The kinds of a record's lines, with what each crossed. */
function told({ lines }: Pick<ReturnType<typeof recordOfProduct>, 'lines'>): string[] {
  return lines.map(({ kind, crossed }) => [kind, ...crossed.map(({ name }) => name)].join(' '));
}

test('a crossing is stamped into the event that made it, once', async () => {
  const record = await begin({ alerts: [percent(80), available(10)] });
  for (const cost of [79, 0, 1, 1, 9, 5]) await record.verify(cost);
  assert.equal(told(record), [
    'verification',
    'verification',
    'verification low',
    'verification',
    'verification left',
    'verification',
  ]);
  await record.remove();
});

test('usedPercent is exact to the micro-credit, where floating point is not', async () => {
  const credits = 8_132_762_829_599_804;
  const crossedAt = Number((BigInt(credits) * 90n + 99n) / 100n);
  assert.is(Math.ceil((credits * 90) / 100), crossedAt - 1, 'floating point would cross a micro-credit early');
  const record = await begin({ credits, alerts: [percent(90)] });
  await record.verify(crossedAt - 1);
  assert.equal(told(record), ['verification']);
  await record.verify(1);
  assert.equal(told(record).slice(1), ['verification low']);
  await record.remove();
});

test('a plain record has the default alerts of its workspace from its next call on, and none after they are gone', async () => {
  const record = await begin({});
  const answerPart = '"totalCredits":"0.0001","allowOverages":true';
  const { billingId } = record;
  await record.declare(packRecord('billing', { version: 1, billingId, limitMicros: MAX_MICROS, answerPart }));
  assert.is((await record.verify(50))[0]!.amounts, '50');
  await declareDefaultAlerts(client, [percent(40, 'a'), percent(80, 'b')]);
  await record.verify(29);
  await record.run(NOON, ['adjust', 1]);
  assert.equal(told(record), ['verification', 'verification', 'adjustment b']);
  await declareDefaultAlerts(client, []);
  await record.verify(1);
  assert.is((await record.verify(1))[0]!.amounts, '82');
  assert.is((await record.fields()).u, '82');
  await record.remove();
});

test('alerts of its own hold in place of the default ones, an empty list too', async () => {
  const record = await begin({ alerts: [percent(80)] });
  await declareDefaultAlerts(client, [percent(10, 'default')]);
  await record.verify(50);
  await record.patch({ version: 2, alerts: [] });
  await record.verify(40);
  await record.patch({ version: 3, credits: 1_000 });
  await record.verify(10);
  assert.equal(told(record), ['verification', 'verification', 'turn', 'verification default']);
  await declareDefaultAlerts(client, []);
  await record.remove();
});
