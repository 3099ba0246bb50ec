import { ApiError } from '../../contract/errors.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { dayOf } from '../../events/event.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';
import { booksAnswer } from './query.ts';

export const outcomeGroups = ['status', 'reason', 'limit', 'key'] as const;
export type OutcomeGroup = (typeof outcomeGroups)[number];

/** Which decisions are asked for. */
export type OutcomeQuestion = {
  teamId: string;
  /** Absent: calls with secrets that are no key of the team's. */
  workspace?: AllowedWorkspace | undefined;
  /** When each period begins, in Unix seconds, and at last when the last one ends. */
  cuts: readonly number[];
  groupBy: readonly OutcomeGroup[];
  filters: Partial<Record<OutcomeGroup, string>>;
  /** Only calls of these keys. */
  keyIds?: readonly string[] | undefined;
};

/** Decisions of a period, by its number, and of one of each group that was asked for. */
export type Outcome = Partial<Record<OutcomeGroup, string>> & {
  period: number;
  /** These are no refusals: a limit would have refused them if it did more than watch. */
  wouldRefuse: boolean;
  calls: number;
};

/** How many rows an answer may have, and how many of the books it may be made from. */
export type OutcomeLimits = { rows: number; read: number };

/** Kinds of events that each stand for one call that was VALID. */
export const IS_VALID_CALL = `kind in ('verification', 'hold')`;

const columnOf = {
  status: 'status',
  reason: 'reason',
  limit: 'limited_by',
  key: 'key_id',
} as const satisfies Record<OutcomeGroup, string>;

/** Counts decisions: those that were VALID from the events, and refusals as verify has counted them. */
export async function readOutcomes(books: Books, question: OutcomeQuestion, most: OutcomeLimits): Promise<Outcome[]> {
  const { teamId, workspace = '', cuts, groupBy, filters, keyIds } = question;
  // `limit` is a word of SQL.
  const keys = ['wouldRefuse', 'period', ...groupBy.map((group) => `\`${group}\``)].join(', ');
  const branches = [fromCounts(question), ...(mayBeValid(question) ? [fromEvents(question)] : [])];
  const [from, to] = [cuts[0]!, cuts.at(-1)!];
  const answer = books.client.query({
    query: `
      select ${keys}, sum(calls) as sum_of_calls from (${branches.join('\nunion all\n')})
      group by ${keys} order by ${keys} limit {mostRows:UInt32}`,
    query_params: {
      ...filters,
      ...(keyIds && { keyIds }),
      team: teamId,
      workspace,
      starts: cuts.slice(0, -1),
      from,
      to,
      firstDay: dayOf(from * 1000),
      lastDay: dayOf(to * 1000 - 1),
      mostRows: most.rows + 1,
    },
    format: 'JSONEachRow',
    // Each group is a row of the answer, which is refused when it has more.
    clickhouse_settings: {
      max_rows_to_group_by: String(most.rows),
      group_by_overflow_mode: 'throw',
      max_rows_to_read: String(most.read),
    },
  });
  const rows = await booksAnswer(async () => (await answer).json<CountRow>()).catch((error: unknown) => {
    throw error instanceof ApiError && error.errorName === 'usage_too_large' ? tooManyRows(most) : error;
  });
  if (rows.length > most.rows) throw tooManyRows(most);
  const numbers = new Map(cuts.map((cut, i) => [cut, i]));
  return rows.map(({ period, sum_of_calls: calls, ...row }) => ({
    ...row,
    period: numbers.get(period)!,
    calls: Number(calls),
  }));
}

type CountRow = Omit<Outcome, 'calls'> & { sum_of_calls: string };

const periodOf = (seconds: string) => `roundDown(toUInt32(${seconds}), {starts:Array(UInt32)}) as period`;

function fromCounts({ groupBy, filters, keyIds }: OutcomeQuestion): string {
  const columns = groupBy.map((group) => `${columnOf[group]} as \`${group}\``);
  const filtered = Object.keys(filters).map((group) => `and ${columnOf[group as OutcomeGroup]} = {${group}:String}`);
  return `
    select ${['would_refuse as wouldRefuse', periodOf('toUnixTimestamp(minute)'), ...columns, 'calls'].join(', ')}
    from refusals final
    where team_id = {team:String} and workspace_id = {workspace:String}
      and minute >= toDateTime({from:UInt32}, 'UTC') and minute < toDateTime({to:UInt32}, 'UTC') ${filtered.join(' ')} ${ofKeys(keyIds)}`;
}

function ofKeys(keyIds: readonly string[] | undefined): string {
  return keyIds ? 'and key_id in {keyIds:Array(String)}' : '';
}

/** Whether a decision that was VALID can be a part of the answer. */
function mayBeValid({ workspace, filters }: OutcomeQuestion): boolean {
  const { status = 'VALID', reason, limit } = filters;
  return workspace !== undefined && status === 'VALID' && reason === undefined && limit === undefined;
}

function fromEvents({ groupBy, filters, keyIds }: OutcomeQuestion): string {
  const valueOf = { status: `'VALID'`, reason: `''`, limit: `''`, key: 'key_id' };
  const columns = groupBy.map((group) => `${valueOf[group]} as \`${group}\``);
  return `
    select ${['false as wouldRefuse', periodOf('toUnixTimestamp(time)'), ...columns, 'toUInt64(1) as calls'].join(', ')}
    from usage_events final
    where workspace_id = {workspace:String} and day between {firstDay:Date} and {lastDay:Date} and ${IS_VALID_CALL}
      and time >= toDateTime64({from:UInt32}, 3, 'UTC') and time < toDateTime64({to:UInt32}, 3, 'UTC')
      ${filters.key === undefined ? '' : 'and key_id = {key:String}'} ${ofKeys(keyIds)}`;
}

function tooManyRows({ rows, read }: OutcomeLimits): ApiError {
  const message = `The answer would have more than ${rows} rows, or be counted from more than ${read} events and counts; ask for a shorter time, a longer interval, fewer groups, or one reason.`;
  return new ApiError('usage_too_large', { message });
}
