import { dayOf } from '../../events/event.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { END } from '../../stores/fields.ts';
import { chunks } from '../../values/chunks.ts';
import { inGroups, type RecordRef } from '../sums/day-sums.ts';

/** A hold as its lines in the books have it, and by how much these have to be put right. */
export type BookedHold = {
  id: string;
  keyId: string;
  usageName: string;
  /** Of an open one what it reserves, what of which class it owns, and when it ends in Unix ms. */
  open?: { micros: number; owned: [number: number, micros: number][]; endsAtMs: number };
  /** The text that Redis keeps of it, for so many seconds where it was settled. */
  text: string;
  keptSeconds: number;
  /** What its lines reserve less than it does, or more below 0. */
  heldChangeMicros: number;
  /** What its lines bill less than the end that stands, or more below 0. */
  costChangeMicros: number;
};

/** A record, and the days on which it has lines of holds. */
export type HoldsOf = RecordRef & { days: string[] };

// A hold lasts for a day, and an extension begins another one: of one that was extended for longer the books may know too little.
const DAYS = 8;
// A hold or an extension lasts for a day at most, and may be captured a day later: the first line after it is not older than that.
const DAYS_TO_NEXT_LINE = 2;
const KEPT_MS = 48 * 3_600_000;
// A script that writes so many takes Redis about a millisecond.
const HOLDS_AT_ONCE = 200;

/** The first day of which lines of holds are read. */
export function firstDayOfHolds(nowMs: number): string {
  return dayOf(nowMs - DAYS * 86_400_000);
}

/**
 * Reads the holds of some records that are open, were settled within 48 h, or whose lines are to be put right: some at a time, by record.
 * Where one ended more than once, the first capture stands, else a charge, else the last release.
 */
export async function* readHolds(
  books: Books,
  records: HoldsOf[],
  nowMs: number,
): AsyncGenerator<Map<string, BookedHold[]>> {
  for (const some of inGroups(records, ({ days }) => days.length)) {
    const days = some.flatMap((one) => one.days.map((day) => ({ ...one, day })));
    if (days.length === 0) continue;
    const answer = await books.client.query({
      query: HOLDS,
      query_params: {
        wholeFrom: dayOf(nowMs - (DAYS - DAYS_TO_NEXT_LINE) * 86_400_000),
        keptFromMs: nowMs - KEPT_MS,
        ids: days.map(({ id }) => id),
        workspaceIds: days.map(({ workspaceId }) => workspaceId),
        days: days.map(({ day }) => day),
      },
      format: 'JSONCompactEachRow',
    });
    for await (const rows of answer.stream<Row>())
      for (const page of chunks(rows, HOLDS_AT_ONCE)) {
        const byRecord = Map.groupBy(
          page.map((row) => row.json()),
          ([id]) => id,
        );
        yield new Map([...byRecord].map(([id, some]) => [id, some.map(([, ...hold]) => readHold(hold, nowMs))]));
      }
  }
}

type Row = [billingId: string, ...RowOfHold];
type RowOfHold = [
  ...[holdId: string, keyId: string, usageName: string, text: string, isWhole: boolean, lastMs: string],
  ...[held: string, cost: string, capture: LineOfEnd, charge: LineOfEnd, release: LineOfEnd],
];
type LineOfEnd = [kind: string, detail: string, cost: string];

function readHold(
  [id, keyId, usageName, text, isWhole, last, held, cost, capture, charge, release]: RowOfHold,
  nowMs: number,
): BookedHold {
  const [micros, endsAt = last, , owned = ''] = text === '' ? ['0'] : text.split(END);
  const ownedIn = [...owned.matchAll(/(\d+):(\d+) /g)].map(([, ...one]) => one.map(Number) as [number, number]);
  const limits = text.split(END).slice(FIELDS_BEFORE_LIMITS).join(END);
  const end = endOf(capture, charge, release);
  const reserved = end ? 0 : Number(micros);
  return {
    id,
    keyId,
    usageName,
    ...(!end && { open: { micros: reserved, owned: ownedIn, endsAtMs: Number(endsAt) } }),
    text: end ? [end.how, end.usage, endsAt, end.late, end.how === 'released' ? '' : limits].join(END) : text,
    keptSeconds: Math.max(1, Math.ceil((Number(last) + KEPT_MS - nowMs) / 1000)),
    heldChangeMicros: isWhole ? reserved - Number(held) : 0,
    costChangeMicros: (end?.usage ?? 0) - Number(cost),
  };
}

type End = { how: string; usage: number; late: string };

function endOf(capture: LineOfEnd, charge: LineOfEnd, release: LineOfEnd): End | undefined {
  const charged = Number(charge[2]);
  // A late capture of what was charged is told by what it changes.
  if (capture[0] === 'correction') return { how: 'captured', usage: charged + Number(capture[2]), late: '1' };
  if (capture[0] !== '') return { how: 'captured', usage: Number(capture[2]), late: capture[1] === 'late' ? '1' : '' };
  if (charge[0] !== '') return { how: 'charged', usage: charged, late: '' };
  if (release[0] !== '') return { how: release[1] === 'expired' ? 'expired' : 'released', usage: 0, late: '' };
  return undefined;
}

// The last of the fields of a hold's text (lua/parts/holds.lua), which has no end of its own.
const FIELDS_BEFORE_LIMITS = 8;

const IS_CAPTURE = `(kind = 'capture' and detail != 'charged' or kind = 'correction' and detail != 'lost')`;
const IS_CHARGE = `(kind = 'capture' and detail = 'charged')`;
const IS_RELEASE = `(kind = 'release' and detail != 'lost')`;
const LINE_OF_END = 'toString(kind), detail, cost_micros';

const HOLDS = `
  select billing_id, hold_id, any(key_id), any(usage_name),
    argMaxIf(detail, (epoch, seq), kind in ('hold', 'extension')),
    toBool(max(kind = 'hold') = 1 or min(day) >= {wholeFrom:Date}),
    toUnixTimestamp64Milli(max(time)) as last_ms,
    sumIf(hold_micros, kind in ('hold', 'correction')) - sumIf(hold_micros, kind in ('capture', 'release')) as held,
    sum(cost_micros),
    argMinIf((${LINE_OF_END}), (epoch, seq), ${IS_CAPTURE}),
    argMinIf((${LINE_OF_END}), (epoch, seq), ${IS_CHARGE}),
    argMaxIf((${LINE_OF_END}), (epoch, seq), ${IS_RELEASE})
  from usage_events final
  where (workspace_id, day, billing_id) in (
      select of_day.1, of_day.2, of_day.3
      from (select arrayJoin(arrayZip({workspaceIds:Array(String)}, {days:Array(Date)}, {ids:Array(String)})) as of_day))
    and kind in ('hold', 'capture', 'release', 'extension', 'correction') and detail != 'cancelled'
  group by billing_id, hold_id
  having countIf(${IS_CAPTURE} or ${IS_CHARGE} or ${IS_RELEASE}) != 1 or held != 0 or last_ms >= {keptFromMs:Int64}
  order by billing_id, hold_id`;
