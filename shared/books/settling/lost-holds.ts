import { ApiError } from '../../contract/errors.ts';
import { mapLimited } from '../../runtime/map-limited.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { dayOf } from '../../events/event.ts';
import { END } from '../../stores/fields.ts';
import { keyspace } from '../../stores/keyspace.ts';
import type { ShardedRedis } from '../../stores/redis.ts';
import { chunks } from '../../values/chunks.ts';
import type { Balance, FailedRecord } from '../balances.ts';
import { billingKey } from '../billing-refs.ts';
import { byHalves } from '../by-halves.ts';

// What Redis has lost of holds, and the books have. docs/accounts-design.md, "Holds".

/**
 * A hold of which the books have lines that Redis lacks, and how many. `how` is empty where none of them ends it; `micros` is the
 * amount of what ended it. `isWhole`: the books have all lines of it that were not lost, so that these add up to what is to be
 * put right.
 */
type LostHold = {
  id: string;
  lines: number;
  changeMicros: number;
  costMicros: number;
  how: string;
  micros: number;
  isWhole: boolean;
  text: string;
};

// A hold lasts for a day, and an extension begins another one: of one that was extended for longer the books may know too little.
const DAYS = 8;
// A hold or an extension lasts for a day at most, and may be captured a day later: the first line after it is not older than that.
const DAYS_TO_NEXT_LINE = 2;
const RECORDS_AT_ONCE = 50;
const HOLDS_PER_QUERY = 1_000;
// A script of so many takes Redis about a millisecond.
const HOLDS_PER_SCRIPT = 100;
const SCRIPTS_AT_ONCE = 8;
const WITHIN_MS = 2_000;

/** Permission to write the holds of a shard. */
type Grant = (shard: number) => { fence: string; epoch: number };

type Stores = { redis: ShardedRedis; books: Books };

/**
 * Takes in what the books have of lost holds of some records, whose costs were settled. Gives the records that failed alone; throws
 * where a server fails, which `requireBooks` does where the books can't be read at all.
 */
export async function settleHolds(
  stores: Stores,
  balances: Balance[],
  grant: Grant,
  requireBooks: () => Promise<void>,
): Promise<FailedRecord[]> {
  const failed: FailedRecord[] = [];
  const takeInAll = async (some: Balance[]) => void failed.push(...(await settleSome(stores, some, grant)));
  for (const some of chunks(balances, RECORDS_AT_ONCE)) {
    const alone = await byHalves(some, takeInAll, requireBooks);
    failed.push(...alone.map(({ item: { billing }, error }) => ({ billing, error })));
  }
  return failed;
}

async function settleSome({ redis, books }: Stores, balances: Balance[], grant: Grant): Promise<FailedRecord[]> {
  const failed: FailedRecord[] = [];
  let [rest, after] = [balances, new Map<string, string>()];
  while (rest.length > 0) {
    const found = await queryLostHolds(books, rest, { after, nowMs: await redis.now() });
    await mapLimited(rest, SCRIPTS_AT_ONCE, async (balance) => {
      for (const holds of chunks(found.get(balance.billing.id) ?? [], HOLDS_PER_SCRIPT)) {
        const error = await takeIn(redis, balance, holds, grant);
        if (error) failed.push({ billing: balance.billing, error });
      }
    });
    after = new Map([...found].map(([id, holds]) => [id, holds.at(-1)!.id]));
    rest = rest.filter(({ billing }) => found.get(billing.id)?.length === HOLDS_PER_QUERY);
  }
  return failed;
}

/** Gives the error of a record that failed alone; throws where the server fails or the shard is closed. */
async function takeIn(
  redis: ShardedRedis,
  { billing }: Balance,
  holds: LostHold[],
  grant: Grant,
): Promise<Error | undefined> {
  const { shard } = billing;
  const node = redis.node(shard);
  const { fence, epoch } = grant(shard);
  const keys = [keyspace.meta(shard), billingKey(billing), keyspace.outbox(shard)];
  const asked = holds.flatMap(({ id, lines, changeMicros, costMicros, how, micros, isWhole, text }) => [
    id,
    lines,
    changeMicros,
    costMicros,
    how,
    micros,
    isWhole ? '1' : '',
    text,
  ]);
  for (;;) {
    const args = [fence, node.notAfter(WITHIN_MS), epoch, ...asked];
    const [status, , error] = await node.script('holds', keys, args, WITHIN_MS);
    if (status === 'OK') return undefined;
    if (status === 'UNSETTLED') return new Error(error);
    if (status !== 'AGAIN')
      throw new ApiError('redis_unavailable', { cause: new Error(`the holds script answered ${status}`) });
  }
}

/** The next lost holds of some records after one of each, in the order of their ids. */
async function queryLostHolds(
  books: Books,
  balances: Balance[],
  { after, nowMs }: { after: Map<string, string>; nowMs: number },
): Promise<Map<string, LostHold[]>> {
  const known = balances.flatMap(({ billing, sequences }) =>
    [...sequences].map(([epoch, number]) => ({ id: billing.id, epoch, number })),
  );
  const answer = await books.client.query({
    query: LOST_HOLDS,
    query_params: {
      // By the clock of Redis, which dates the lines.
      today: dayOf(nowMs),
      ids: balances.map(({ billing }) => billing.id),
      workspaceIds: [...new Set(balances.map(({ billing }) => billing.workspaceId))],
      epochs: balances.map(({ epoch }) => epoch),
      after: balances.map(({ billing }) => after.get(billing.id) ?? ''),
      knownIds: known.map(({ id }) => id),
      knownEpochs: known.map(({ epoch }) => epoch),
      knownNumbers: known.map(({ number }) => number),
    },
    format: 'JSONCompactEachRow',
  });
  const rows = await answer.json<Row>();
  const ofRecords = Map.groupBy(rows, ([billingId]) => billingId);
  return new Map([...ofRecords].map(([id, ofRecord]) => [id, ofRecord.map(readRow)]));
}

type Row = [
  ...[billingId: string, holdId: string, lines: string, change: string, cost: string],
  ...[capture: LineOfEnd, charge: LineOfEnd, release: LineOfEnd, isWhole: number],
  ...[text: string, micros: string, keyId: string, usageName: string, epoch: number],
];
type LineOfEnd = [kind: string, detail: string, cost: string];

function readRow(row: Row): LostHold {
  const [, id, lines, change, cost, capture, charge, release, isWhole, text, micros, keyId, usageName, epoch] = row;
  const [ended, howMuch] = endOf(capture, charge, release);
  // Where no line has the hold, what a correction of it needs.
  const said = [micros, 0, 'release', 0, 0, epoch, keyId, usageName].join(END) + END;
  return {
    id,
    lines: Number(lines),
    changeMicros: Number(change),
    costMicros: Number(cost),
    how: ended,
    micros: Number(howMuch),
    isWhole: isWhole === 1,
    text: text === '' ? said : text,
  };
}

/** What ended a hold for good: the first capture, else a charge, else a release. */
function endOf(capture: LineOfEnd, charge: LineOfEnd, release: LineOfEnd): [how: string, micros: string] {
  // A late capture of what was charged is told by what it changes.
  if (capture[0] === 'correction') return ['corrected', capture[2]];
  if (capture[0] !== '') return [capture[1] === 'late' ? 'late' : 'captured', capture[2]];
  if (charge[0] !== '') return ['charged', charge[2]];
  if (release[0] !== '') return [release[1] === 'expired' ? 'expired' : 'released', '0'];
  return ['', '0'];
}

const IS_CAPTURE = `(kind = 'capture' and detail != 'charged' or kind = 'correction' and detail != 'lost')`;
const LINE_OF_END = 'toString(kind), detail, cost_micros';

// Holds whose lost lines don't add up to one end, or of which Redis has lines besides: all others began and ended in what was lost.
const LOST_HOLDS = `
  with
    asked as (
      select asked.1 as asked_id, asked.2 as now_epoch, asked.3 as after_hold
      from (select arrayJoin(arrayZip({ids:Array(String)}, {epochs:Array(UInt32)}, {after:Array(String)})) as asked)),
    known as (
      select known.1 as known_id, known.2 as known_epoch, known.3 as known_number
      from (select arrayJoin(arrayZip({knownIds:Array(String)}, {knownEpochs:Array(UInt32)}, {knownNumbers:Array(UInt64)})) as known))
  select billing_id, hold_id, countIf(is_lost),
    sumIf(hold_micros, is_lost and kind in ('hold', 'correction')) - sumIf(hold_micros, is_lost and kind in ('capture', 'release')) as change,
    sumIf(cost_micros, is_lost),
    argMinIf((${LINE_OF_END}), (epoch, seq), is_lost and ${IS_CAPTURE}),
    argMinIf((${LINE_OF_END}), (epoch, seq), is_lost and kind = 'capture' and detail = 'charged'),
    argMaxIf((${LINE_OF_END}), (epoch, seq), is_lost and kind = 'release' and detail != 'lost'),
    max(kind = 'hold') = 1 or min(day) >= {today:Date} - ${DAYS - DAYS_TO_NEXT_LINE},
    argMaxIf(detail, (epoch, seq), is_lost and kind in ('hold', 'extension')),
    maxIf(hold_micros, kind in ('hold', 'extension', 'capture')), any(key_id), any(usage_name), max(epoch)
  from (
    select billing_id, hold_id, kind, day, epoch, seq, cost_micros, hold_micros, detail, key_id, usage_name, after_hold,
      epoch < now_epoch and seq > known_number as is_lost
    from usage_events final
    any left join asked on asked_id = billing_id
    any left join known on known_id = billing_id and known_epoch = epoch
    where workspace_id in {workspaceIds:Array(String)} and day >= {today:Date} - ${DAYS}
      and billing_id in {ids:Array(String)}
      and kind in ('hold', 'capture', 'release', 'extension', 'correction')
  )
  where hold_id > after_hold
  group by billing_id, hold_id
  having countIf(is_lost) > 0
    and (change != 0 or countIf(not is_lost) > 0 or countIf(is_lost and (kind = 'capture' or ${IS_CAPTURE})) > 1)
  order by billing_id, hold_id
  limit ${HOLDS_PER_QUERY} by billing_id`;
