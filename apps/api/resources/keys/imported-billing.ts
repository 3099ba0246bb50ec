import { Type, type Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { noteReplenished } from '../../../../shared/books/credit-states.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { credits, instant, object, flag } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { readHeard } from '../../sync/accounts.ts';
import {
  billings,
  creditsIn,
  insertBilling,
  someCreditsIn,
  requireBillingOfMeter,
  type BillingRow,
} from '../billings/billings.ts';
import { addGrant, type GrantMaker } from '../grants/classes.ts';
import { changedGrant, requireFewEnded, requireGrant } from '../grants/grants.ts';
import { addSchedule, newPeriods, schedules } from '../grants/schedules.ts';
import type { Recorded } from '../record.ts';

/** What a key that is imported brings for its meter. */
export const importedBilling = {
  ...object({
    allowOverages: Type.Optional(flag('whether a record that is made for it lets use go on beyond its credits', false)),
    credits: Type.Optional(credits('credits granted at once')),
    expiresAt: Type.Optional(instant('when these end; absent: never')),
    schedule: Type.Optional(
      object({
        credits: credits('credits granted for each period, above 0'),
        ...newPeriods,
      }),
    ),
  }),
  description:
    'makes the billing record of externalMeterId where there is none, and grants it credits, once: in the step that makes the key. Needs billing:write',
};
export type ImportedBilling = Static<typeof importedBilling>;

type Metered = { workspaceId: string; externalMeterId: string; name: string };
type Billing = {
  redis: ShardedRedis;
  caller: Caller;
  requestId: string;
  /** When each record of the request was first looked at, by Redis's clock: Redis hears of its changes with the answer. */
  seenAt: Map<string, number>;
};

/** Makes the billing record of a key's meter, or adds to it; gives what to say of it. */
export async function billImported(
  sql: Query,
  { redis, caller, requestId, seenAt }: Billing,
  key: Metered,
  { allowOverages = false, credits = '0', expiresAt, schedule }: ImportedBilling,
): Promise<Recorded[]> {
  const { workspaceId, externalMeterId, name } = key;
  const made = await insertBilling(sql, caller, { workspaceId, externalMeterId, totalMicros: 0, allowOverages });
  const record = made ?? (await requireBillingOfMeter(sql, caller, key, { lock: true }));
  const recorded: Recorded[] = [
    made ? billings.recorded({ after: made }) : { resource: 'billing', id: record.id, shards: [record.shard] },
  ];
  if (record.allowOverages && !allowOverages) throw new ApiError('grant_unlimited');
  const nowMs = seenAt.get(record.id) ?? (await look(redis, record, made !== undefined));
  seenAt.set(record.id, nowMs);
  const maker: GrantMaker = { ...caller, requestId };
  const amountMicros = creditsIn('billing/credits', credits);
  if (amountMicros > 0) {
    if (expiresAt !== undefined && expiresAt <= nowMs)
      throw invalidField('/billing/expiresAt', 'must lie in the future');
    const id = newId('grant');
    const grant = { id, amountMicros, priority: 50, beginsAt: nowMs, expiresAt: expiresAt ?? null, name };
    await addGrant(sql, record, grant, maker, nowMs);
    recorded.push(changedGrant({ after: await requireGrant(sql, record, id) }));
  }
  if (schedule) {
    const periodMicros = someCreditsIn('billing/schedule/credits', schedule.credits);
    const wanted = { ...schedule, amountMicros: periodMicros, rollMaxMicros: null, name };
    const { row } = await addSchedule(sql, record, wanted, maker, nowMs);
    recorded.push(schedules.recorded({ after: row }));
  }
  if (amountMicros > 0 || schedule) await noteReplenished(sql, [record.id]);
  return recorded;
}

/** When a locked record is looked at, once Redis has all that was changed in it before. */
async function look(redis: ShardedRedis, record: BillingRow, isNew: boolean): Promise<number> {
  if (isNew) return redis.node(record.shard).now();
  const account = await readHeard(redis, record);
  requireFewEnded(account);
  return account.balance.atMs;
}
