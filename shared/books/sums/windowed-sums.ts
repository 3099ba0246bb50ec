import { IS_CANCELLED, IS_COUNTED, type Books } from '../../stores/clickhouse.ts';
import type { Balance } from '../balances.ts';

// What limits over windows count, as the books have it.

/** What was counted of an owner since an instant: how many calls, and what they cost. */
export type WindowedSums = (owner: string, sinceMs: number, usageName: string | undefined) => Counted;
export type Counted = { events: number; micros: number };

type Wanted = {
  workspaceIds: string[];
  /** The records whose events count; `''` for those of keys without one. */
  billingIds: string[];
  /** The keys whose events count, each by itself; absent: those of each record. */
  keyIds?: string[];
  /** Only events that these balances of the records lack. */
  lateFor?: Balance[];
  sinceMs: number[];
};

/** Sums what verifications that were not cancelled and captures of some keys or records used since some instants, in one query. */
export async function readWindowedSums(
  books: Books,
  { workspaceIds, billingIds, keyIds, lateFor, sinceMs }: Wanted,
): Promise<WindowedSums> {
  const starts = [...new Set(sinceMs)].toSorted((a, b) => a - b);
  const owner = keyIds ? 'key_id' : 'billing_id';
  const answer = await books.client.query({
    // Of a row counts how many of the instants lie at or before it.
    query: `
      ${lateFor ? LATE : ''}
      select ${owner}, usage_name, arrayCount(start -> toUnixTimestamp64Milli(time) >= start, {starts:Array(Int64)}) as passed,
             sum(if(${IS_COUNTED}, 1, -1)), sum(cost_micros)
      from usage_events final ${lateFor ? LATE_JOINS : ''}
      where workspace_id in {workspaceIds:Array(String)} and billing_id in {billingIds:Array(String)} ${keyIds ? 'and key_id in {keyIds:Array(String)}' : ''}
        and day >= toDate(fromUnixTimestamp64Milli({first:Int64}), 'UTC') and (${IS_COUNTED} or ${IS_CANCELLED}) ${lateFor ? `and ${IS_LATE}` : ''}
      group by ${owner}, usage_name, passed having passed > 0`,
    query_params: {
      ...(lateFor && lateParams(lateFor)),
      workspaceIds,
      billingIds,
      keyIds: keyIds ?? [],
      starts,
      first: starts[0] ?? 0,
    },
    format: 'JSONCompactEachRow',
  });
  const rows = await answer.json<[id: string, usageName: string, passed: string, events: string, micros: string]>();
  const byOwner = Map.groupBy(rows, ([id]) => id);
  return (id, since, usageName) => {
    const [sums, from] = [{ events: 0, micros: 0 }, starts.indexOf(since) + 1];
    for (const [, name, passed, events, micros] of byOwner.get(id) ?? []) {
      if (Number(passed) < from || (usageName !== undefined && name !== usageName)) continue;
      sums.events += Number(events);
      sums.micros += Number(micros);
    }
    return sums;
  };
}

/** The next keys after one, in the order of their ids, that some records have events of since an instant and their balances lack. */
export async function readLateKeys(
  books: Books,
  balances: Balance[],
  { sinceMs, after, limit }: { sinceMs: number; after: string; limit: number },
): Promise<string[]> {
  const answer = await books.client.query({
    query: `
      ${LATE}
      select distinct key_id from usage_events final ${LATE_JOINS}
      where workspace_id in {workspaceIds:Array(String)} and billing_id in {ids:Array(String)} and key_id > {after:String}
        and day >= toDate(fromUnixTimestamp64Milli({sinceMs:Int64}), 'UTC') and ${IS_COUNTED} and ${IS_LATE}
      order by key_id limit {limit:UInt32}`,
    query_params: {
      ...lateParams(balances),
      workspaceIds: [...new Set(balances.map(({ billing }) => billing.workspaceId))],
      sinceMs,
      after,
      limit,
    },
    format: 'JSONCompactEachRow',
  });
  return (await answer.json<[string]>()).map(([id]) => id);
}

// Events of earlier epochs with a higher number than the last one that a balance has.
const IS_LATE = 'epoch < now_epoch and seq > known_number';
const LATE_JOINS = `
  any left join asked on asked_id = billing_id
  any left join known on known_id = billing_id and known_epoch = epoch`;
const LATE = `
  with
    asked as (
      select asked.1 as asked_id, asked.2 as now_epoch
      from (select arrayJoin(arrayZip({ids:Array(String)}, {epochs:Array(UInt32)})) as asked)),
    known as (
      select known.1 as known_id, known.2 as known_epoch, known.3 as known_number
      from (select arrayJoin(arrayZip({knownIds:Array(String)}, {knownEpochs:Array(UInt32)}, {knownNumbers:Array(UInt64)})) as known))`;

function lateParams(balances: Balance[]) {
  const known = balances.flatMap(({ billing, sequences }) =>
    [...sequences].map(([epoch, number]) => ({ id: billing.id, epoch, number })),
  );
  return {
    ids: balances.map(({ billing }) => billing.id),
    epochs: balances.map(({ epoch }) => epoch),
    knownIds: known.map(({ id }) => id),
    knownEpochs: known.map(({ epoch }) => epoch),
    knownNumbers: known.map(({ number }) => number),
  };
}
