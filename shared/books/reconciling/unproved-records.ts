import { eachOf, type Query } from '../../stores/postgres.ts';
import type { BillingRef } from '../billing-refs.ts';
import type { Reconciliation } from './reconcile.ts';

/** A record that the last comparison did not find exact. */
export type UnprovedRecord = {
  id: string;
  externalMeterId: string;
  status: 'MISSING' | 'TOO_MUCH';
  differenceMicros: number;
  heldDifferenceMicros: number;
  since: Date;
};

/** What the last comparisons say of a workspace. */
export type WorkspaceProof = {
  /** When the last comparison of all records began, in Unix ms; undefined before the first one. */
  atMs: number | undefined;
  different: UnprovedRecord[];
  differentRecords: number;
  undecidedRecords: number;
};

/** Notes which of some records were not found exact, and forgets those that were. A record without a result is undecided. */
export async function noteProofs(
  sql: Query,
  billings: readonly BillingRef[],
  results: readonly Reconciliation[],
): Promise<void> {
  const byId = new Map(results.map((result) => [result.billing.id, result]));
  const unproved = billings.flatMap(({ id }) => {
    const { status = 'ON_ITS_WAY', differenceMicros = 0, heldDifferenceMicros = 0 } = byId.get(id) ?? {};
    return status === 'EXACT' ? [] : [{ id, status, differenceMicros, heldDifferenceMicros }];
  });
  const open = new Set(unproved.map(({ id }) => id));
  const exact = billings.filter(({ id }) => !open.has(id)).map(({ id }) => id);
  await sql`delete from unproved_records where billing_id = any(${eachOf(sql, exact)})`;
  if (unproved.length === 0) return;
  await sql`
    insert into unproved_records as known (billing_id, team_id, workspace_id, status, difference_micros, held_difference_micros)
    select b.id, b.team_id, b.workspace_id, u.status, u."differenceMicros", u."heldDifferenceMicros"
    from json_to_recordset(${JSON.stringify(unproved)}::text::json)
      as u (id text, status text, "differenceMicros" bigint, "heldDifferenceMicros" bigint)
    join billing_records b on b.id = u.id
    on conflict (billing_id) do update set
      status = excluded.status, difference_micros = excluded.difference_micros,
      held_difference_micros = excluded.held_difference_micros,
      since = case when known.status = excluded.status then known.since else excluded.since end`;
}

/** Notes that all records were compared by a run that began at a moment: the last run, also where a clock was ahead before. */
export async function noteProved(sql: Query, beganMs: number): Promise<void> {
  await sql`
    insert into job_watermarks (job, at) values ('reconciled', ${beganMs})
    on conflict (job) do update set at = excluded.at`;
}

/** How many records the last comparisons found to differ or could not decide, and how long ago the last one of all began. */
export async function countUnproved(
  sql: Query,
): Promise<{ different: number; undecided: number; ageSeconds: number | null }> {
  const [row] = await sql<[{ different: number; undecided: number; ageSeconds: number | null }]>`
    select count(*) filter (where status <> 'ON_ITS_WAY') as different,
           count(*) filter (where status = 'ON_ITS_WAY') as undecided,
           (select extract(epoch from now())::float8 - at / 1000.0::float8 from job_watermarks where job = 'reconciled') as age_seconds
    from unproved_records`;
  return row;
}

/** What the last comparisons say of a workspace, with its first records that differ. */
export async function readProof(sql: Query, workspaceId: string, most: number): Promise<WorkspaceProof> {
  const [[watermark], counts, different] = await Promise.all([
    sql<{ at: number }[]>`select at from job_watermarks where job = 'reconciled'`,
    sql<{ isUndecided: boolean; records: number }[]>`
      select status = 'ON_ITS_WAY' as is_undecided, count(*)::int as records from unproved_records
      where workspace_id = ${workspaceId} group by 1`,
    sql<UnprovedRecord[]>`
      select b.id, b.external_meter_id, u.status, u.difference_micros, u.held_difference_micros, u.since
      from unproved_records u join billing_records b on b.id = u.billing_id
      where u.workspace_id = ${workspaceId} and u.status in ('MISSING', 'TOO_MUCH') order by u.billing_id limit ${most}`,
  ]);
  const count = (isUndecided: boolean) => counts.find((one) => one.isUndecided === isUndecided)?.records ?? 0;
  return { atMs: watermark?.at, different, differentRecords: count(false), undecidedRecords: count(true) };
}
