import type { Books } from '../../stores/clickhouse.ts';
import { dayOf } from '../../events/event.ts';
import { REFUSALS_KEPT_MS } from '../../events/outcome.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';
import { IS_VALID_CALL } from './outcomes-query.ts';
import { booksAnswer } from './query.ts';

/** Whose decisions are asked for, and which. */
export type RecentQuestion = {
  workspace: AllowedWorkspace;
  /** A key, or those of a meter; absent: all of the workspace. */
  keyIds?: readonly string[];
  meter?: string | undefined;
  /** The billing record of the meter. */
  billingId?: string | undefined;
  refused?: boolean | undefined;
  status?: string | undefined;
  reason?: string | undefined;
  usageName?: string | undefined;
  /** Unix milliseconds; `toMs` is excluded. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
};

export type RecentOutcome = {
  id: string;
  timeMs: number;
  apiKeyId: string;
  status: string;
  reason: string;
  /** JSON, or ''. */
  limitedBy: string;
  route: string;
  clientAddress: string;
  usageName: string;
  billingId: string;
  costMicros: number;
  /** What the billing record has used with it. */
  usedMicros: number;
};

// The times before now that are looked through one after the other, until there is enough.
const LATELY_MS = [10_000, 600_000];
// An event is inserted after it was made, by another clock.
const CLOCKS_DIFFER_MS = 3_600_000;
// An event that was delivered again may stand in the books more than once for a while.
const COPIES = 3;

/** The last decisions, newest first: those that were VALID from the events, and refusals as verify has kept them. */
export async function readRecentOutcomes(
  books: Books,
  question: RecentQuestion,
  nowMs: number,
  most: number,
): Promise<RecentOutcome[]> {
  const firstMs = Math.max(nowMs - REFUSALS_KEPT_MS, question.fromMs ?? 0);
  const lastMs = question.toMs ?? nowMs;
  // A busy customer has enough of them in the last minutes, and nobody reads the rest of its day.
  for (const lately of LATELY_MS.filter((ms) => lastMs - ms > firstMs)) {
    const rows = await readSince(books, question, lastMs - lately, most);
    if (rows.length >= most) return rows;
  }
  return readSince(books, question, firstMs, most);
}

async function readSince(books: Books, question: RecentQuestion, fromMs: number, most: number) {
  const { workspace, keyIds, meter, billingId = '', refused, status, reason, usageName, toMs } = question;
  const ofKeys = keyIds ? 'key_id in {keyIds:Array(String)}' : 'true';
  // Before a meter has a record, its events name none.
  const ofEvents =
    meter === undefined
      ? `${keyIds ? `billing_id in ('', {billingId:String}) and` : ''} ${ofKeys}`
      : `(billing_id = '' and ${ofKeys} or billing_id != '' and billing_id = {billingId:String})`;
  const recent = `
    time >= fromUnixTimestamp64Milli({fromMs:Int64}) ${toMs === undefined ? '' : 'and time < fromUnixTimestamp64Milli({toMs:Int64})'}
    order by time desc limit {copies:UInt32}`;
  const valid = `
    select event_id as id, time, key_id, 'VALID' as status, '' as reason, '' as limited_by, route, '' as client_address, usage_name,
      billing_id, cost_micros, used_micros
    from usage_events
    where workspace_id = {workspace:String} and day >= {firstDay:Date} and ${IS_VALID_CALL} and ${ofEvents}
      and inserted_at >= fromUnixTimestamp64Milli({insertedFromMs:Int64})
      ${usageName === undefined ? '' : 'and usage_name = {usageName:String}'} and ${recent}`;
  const refusals = `
    select refusal_id as id, time, key_id, status, reason, limited_by, route, client_address, '' as usage_name, '' as billing_id,
      0 as cost_micros, 0 as used_micros
    from recent_refusals
    where workspace_id = {workspace:String} and ${meter === undefined ? ofKeys : 'external_meter_id = {meter:String}'}
      ${status === undefined ? '' : 'and status = {status:String}'} ${reason === undefined ? '' : 'and reason = {reason:String}'} and ${recent}`;
  // What was refused has no usage, and what was not has no reason.
  const branches = [
    ...(refused || reason !== undefined || (status ?? 'VALID') !== 'VALID' ? [] : [valid]),
    ...(refused === false || usageName !== undefined || status === 'VALID' ? [] : [refusals]),
  ];
  if (branches.length === 0) return [];
  const answer = books.client.query({
    query: `
      select id, toUnixTimestamp64Milli(time) as timeMs, key_id as apiKeyId, status, reason, limited_by as limitedBy, route,
        client_address as clientAddress, usage_name as usageName, billing_id as billingId, cost_micros as costMicros,
        used_micros as usedMicros
      from (${branches.join(' union all ')}) order by time desc, id desc limit 1 by id limit {most:UInt32}`,
    query_params: {
      workspace,
      billingId,
      fromMs,
      insertedFromMs: fromMs - CLOCKS_DIFFER_MS,
      firstDay: dayOf(fromMs),
      most,
      copies: most * COPIES,
      ...Object.fromEntries(
        Object.entries({ keyIds, meter, status, reason, usageName, toMs }).filter(([, value]) => value !== undefined),
      ),
    },
    format: 'JSONEachRow',
  });
  type Told = RecentOutcome & Record<'timeMs' | 'costMicros' | 'usedMicros', string>;
  const rows = await booksAnswer(async () => (await answer).json<Told>());
  return rows.map(({ timeMs, costMicros, usedMicros, ...row }): RecentOutcome => {
    return { ...row, timeMs: Number(timeMs), costMicros: Number(costMicros), usedMicros: Number(usedMicros) };
  });
}
