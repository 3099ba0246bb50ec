import type { Clock } from '../../shared/runtime/clock.ts';
import { noteReplenished } from '../../shared/books/credit-states.ts';
import type { WebhookEvent } from '../../shared/contract/webhook-events.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { startDueLoop, type DueLoop } from '../../shared/stores/due-loops.ts';
import type { Sql, Transaction } from '../../shared/stores/postgres.ts';
import { notifyWebhooks } from '../../shared/stores/notify-webhooks.ts';
import { DAY_MS } from '../../shared/values/periods.ts';

const ROWS_AT_ONCE = 500;
// How long a transaction may take: what it made may have begun before others could see it.
const UNSEEN_MS = 60_000;
// How long most take.
const COMMITTED_MS = 2_000;
const JOB = 'webhook_moments';

type Moment = {
  type: 'grant.began' | 'grant.expired' | 'grant.expiring' | 'key.expiring';
  /** How long before the end; 0 of what is sent when it is there. */
  before: number;
};

const moments: Moment[] = [
  { type: 'grant.began', before: 0 },
  { type: 'grant.expired', before: 0 },
  { type: 'grant.expiring', before: 7 * DAY_MS },
  { type: 'grant.expiring', before: DAY_MS },
  { type: 'key.expiring', before: 7 * DAY_MS },
  { type: 'key.expiring', before: DAY_MS },
];

/**
 * Notifies webhooks what comes by the clock, until stopped: grants that begin, end, or end in 7 days and in one, and keys that expire
 * in 7 days and in one. It keeps how far it came: after a time without any consumer it goes on from there. A moment that is sent
 * again has the same id.
 */
export function startNotifyingMoments(sql: Sql, runtime: { log: Logger; clock: Clock }): DueLoop {
  return startDueLoop(runtime, 'notifying webhooks of what the clock brings', isMomentThere, async () => {
    const [clock] = await sql<[{ now: number; at: number | null }]>`
      select floor(extract(epoch from now()) * 1000)::bigint as now, (select at from job_watermarks where job = ${JOB}) as at`;
    const { now, at } = clock;
    if (at !== null) await notifyMoments(sql, at, now);
    await sql`
      insert into job_watermarks as known (job, at) values (${JOB}, ${now})
      on conflict (job) do update set at = greatest(known.at, excluded.at)`;
  });
}

/** Whether something came since the last look. What longer transactions made has to wait for the next slow one. */
function isMomentThere(sql: Sql) {
  return sql`exists (
    select from job_watermarks last
    cross join unnest(${[...new Set(moments.map(({ before }) => before))]}::bigint[]) as before
    cross join lateral (select last.at - ${COMMITTED_MS}::int + before as after, floor(extract(epoch from now()) * 1000)::bigint + before as till) span
    cross join lateral (
      select from grants where voided_at is null and before = 0 and begins_at > after and begins_at <= till
      union all
      select from grants where voided_at is null and expires_at is not null
        and coalesce(rolls_until, expires_at) > after and coalesce(rolls_until, expires_at) <= till
      union all
      select from api_keys where deleted_at is null and before > 0 and expires_at > after and expires_at <= till) there
    where last.job = ${JOB})`;
}

/** Notifies what comes after an instant, until another one, and what became visible only now: a page of each kind by one statement. */
export async function notifyMoments(sql: Sql, from: number, to: number): Promise<void> {
  let pages = moments.map((moment) => ({ moment, at: from - UNSEEN_MS + moment.before, id: '' }));
  while (pages.length > 0) {
    const rows = await sql<Row[]>`${pages.map(
      ({ moment, at, id }, page) => sql`
      ${page > 0 ? sql`union all` : sql``}
      (select ${page}::int as page, id, at, team_id, workspace_id, billing_id, json_strip_nulls(data) as data
       from (${moment.type === 'key.expiring' ? keysThatEnd(sql, moment.before) : grantsThatTurn(sql, moment)}) one
       where at >= ${at}::bigint and at <= ${to + moment.before}::bigint and (at, id) > (${at}::bigint, ${id})
         and (at > ${from + moment.before}::bigint or changed_at > ${new Date(from - 2 * UNSEEN_MS)})
       order by at, id limit ${ROWS_AT_ONCE})`,
    )}`;
    const found = Map.groupBy(rows, ({ page }) => pages[page]!.moment);
    for (const [moment, ofMoment] of found) await sql.begin((tx) => notify(tx, moment, ofMoment));
    const full = [...found].filter(([, ofMoment]) => ofMoment.length === ROWS_AT_ONCE);
    pages = full.map(([moment, ofMoment]) => ({ moment, ...ofMoment.at(-1)! }));
  }
}

type Row = {
  page: number;
  id: string;
  /** The instant that is looked for: when it begins or ends. */
  at: number;
  teamId: string;
  workspaceId: string;
  billingId: string | null;
  data: object;
};

function grantsThatTurn(sql: Sql, { type, before }: Moment) {
  const ends = sql`coalesce(g.rolls_until, g.expires_at)`;
  const at = type === 'grant.began' ? sql`g.begins_at` : ends;
  const isThere =
    type === 'grant.began' ? sql`true` : sql`g.expires_at is not null and ${at} - ${before} >= g.begins_at`;
  return sql`
    select g.id, ${at} as at, g.created_at as changed_at, b.team_id, b.workspace_id, b.id as billing_id,
           json_build_object('billingId', b.id, 'externalMeterId', b.external_meter_id, 'grantId', g.id,
             'credits', trim_scale(g.amount_micros * 0.000001)::text, 'name', g.name, 'beginsAt', g.begins_at, 'expiresAt', ${ends}) as data
    from grants g join billing_records b on b.id = g.billing_id
    join workspaces w on w.id = b.workspace_id and w.deleted_at is null
    where g.voided_at is null and ${isThere}`;
}

function keysThatEnd(sql: Sql, before: number) {
  return sql`
    select k.id, k.expires_at as at, k.updated_at as changed_at, k.team_id, k.workspace_id, null as billing_id,
           json_build_object('apiKeyId', k.id, 'name', k.name, 'maskedKey', k.masked_key, 'customerId', k.customer_id,
             'externalMeterId', k.external_meter_id, 'expiresAt', k.expires_at) as data
    from api_keys k join workspaces w on w.id = k.workspace_id and w.deleted_at is null
    where k.deleted_at is null and k.expires_at is not null and k.expires_at - ${before} >= extract(epoch from k.created_at) * 1000`;
}

async function notify(tx: Transaction, moment: Moment, rows: Row[]): Promise<void> {
  const events = rows.map((row) => eventOf(moment, row));
  await notifyWebhooks(tx, events);
  const billingIds = rows.map(({ billingId }) => billingId!);
  if (moment.type === 'grant.began') await noteReplenished(tx, billingIds);
}

function eventOf({ type, before }: Moment, { id, at, teamId, workspaceId, billingId, data }: Row): WebhookEvent {
  const cause = [type === 'key.expiring' ? at : id, ...(before > 0 ? [before] : [])].join(' ');
  const told = { ...data, ...(before > 0 && { daysLeft: before / DAY_MS }) };
  const of = { teamId, workspaceId, subjectId: billingId ?? id, cause, atMs: at - before };
  return { ...of, type, data: told } as WebhookEvent;
}
