import type { Books } from '../../stores/clickhouse.ts';
import { dayOf } from '../../events/event.ts';
import { REFUSALS_KEPT_MS } from '../../events/outcome.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';
import { IS_VALID_CALL } from './outcomes-query.ts';
import { booksAnswer } from './query.ts';

/** Whose decisions are asked for. */
export type RecentQuestion = {
  workspace: AllowedWorkspace;
  /** A key, or those of a meter. */
  keyIds: readonly string[];
  meter?: string | undefined;
  /** The billing record of the meter. */
  billingId?: string | undefined;
};

export type RecentOutcome = {
  timeMs: number;
  apiKeyId: string;
  status: string;
  reason: string;
  /** JSON, or ''. */
  limitedBy: string;
  route: string;
  clientAddress: string;
};

const LATELY_MS = 600_000;
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
  // A busy customer has enough of them in the last minutes, and nobody reads the rest of its day.
  const lately = await readSince(books, question, nowMs - LATELY_MS, most);
  return lately.length < most ? readSince(books, question, nowMs - REFUSALS_KEPT_MS, most) : lately;
}

async function readSince(
  books: Books,
  { workspace, keyIds, meter, billingId = '' }: RecentQuestion,
  fromMs: number,
  most: number,
): Promise<RecentOutcome[]> {
  const ofKeys = 'key_id in {keyIds:Array(String)}';
  // Before a meter has a record, its events name none.
  const ofEvents =
    meter === undefined
      ? `billing_id in ('', {billingId:String}) and ${ofKeys}`
      : `(billing_id = '' and ${ofKeys} or billing_id != '' and billing_id = {billingId:String})`;
  const recent = `time >= fromUnixTimestamp64Milli({fromMs:Int64}) order by time desc limit {copies:UInt32}`;
  const answer = books.client.query({
    query: `
      select toUnixTimestamp64Milli(time) as timeMs, key_id as apiKeyId, status, reason, limited_by as limitedBy, route,
        client_address as clientAddress
      from (
        select event_id as id, time, key_id, 'VALID' as status, '' as reason, '' as limited_by, route, '' as client_address from usage_events
        where workspace_id = {workspace:String} and day >= {firstDay:Date} and ${IS_VALID_CALL} and ${ofEvents}
          and inserted_at >= fromUnixTimestamp64Milli({insertedFromMs:Int64}) and ${recent}
        union all
        select refusal_id as id, time, key_id, status, reason, limited_by, route, client_address from recent_refusals
        where workspace_id = {workspace:String} and ${meter === undefined ? ofKeys : 'external_meter_id = {meter:String}'}
          and ${recent}
      ) order by time desc, id desc limit 1 by id limit {most:UInt32}`,
    query_params: {
      workspace,
      keyIds,
      billingId,
      fromMs,
      insertedFromMs: fromMs - CLOCKS_DIFFER_MS,
      firstDay: dayOf(fromMs),
      most,
      copies: most * COPIES,
      ...(meter !== undefined && { meter }),
    },
    format: 'JSONEachRow',
  });
  const rows = await booksAnswer(async () => (await answer).json<RecentOutcome & { timeMs: string }>());
  return rows.map((row) => ({ ...row, timeMs: Number(row.timeMs) }));
}
