import { isDeepStrictEqual } from 'node:util';
import { noteCreditLooks } from '../../../../shared/books/credit-states.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { NEVER } from '../../../../shared/stores/account-settings.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { billings, creditsIn, type BillingRow } from '../billings/billings.ts';
import { addGrant, countBegun, type GrantMaker } from '../grants/classes.ts';
import { addSchedule, notGrantedLines, refuseButTooMany, schedules, type ScheduleRow } from '../grants/schedules.ts';
import { voidGrants } from '../grants/voids.ts';
import type { AuditLine } from '../record.ts';
import { changedGrant, requireGrant } from '../grants/grants.ts';
import { set } from '../rows.ts';
import { requireVersion, type PlanRow, type PlanSettings } from './plans.ts';

/** A version of a plan. */
export type PlanVersion = Pick<PlanRow, 'id' | 'version' | 'settings'>;

type Giving = {
  maker: GrantMaker;
  nowMs: number;
  /** From when periods are counted that the plan does not anchor; default now. */
  anchorAt?: number;
  /** Whether what a record may have limits what is given. What was promised before is given in any case. */
  limited: boolean;
};

/**
 * Gives a locked record a plan in place of the one that it has, or of none; without a plan it leaves its own, and keeps its settings.
 * - Another plan: what is left of what its plan gave is voided, its settings become the new plan's, and that one's grants and periods
 *   begin now; periods of the same units go on ending when they did. A plan's grants are given to a record once, however often it comes to the plan.
 * - Another version of its plan: settings that were changed by hand stay. Running periods end as they were granted; those of the new
 *   version follow them. Grants that are given once are not given, and a schedule that was deleted by hand stays deleted.
 * What somebody granted or scheduled by hand stays. Gives what it voided, and the lines of the audit log what it did to
 * credits, also of grants that the record can't have. Redis has heard of all changes of the record (readHeard).
 */
export async function givePlan(sql: Query, record: BillingRow, plan: PlanVersion | undefined, giving: Giving) {
  const { maker, nowMs } = giving;
  const isSame = plan !== undefined && plan.id === record.planId;
  const was = isSame ? await requireVersion(sql, plan.id, record.planVersion!) : undefined;
  await countBegun(sql, record, nowMs);
  const left = await sql<LeftSchedule[]>`
    with left_now as (
      update grant_schedules set deleted_at = now() where billing_id = ${record.id} and plan_id is not null and deleted_at is null
      returning *)
    select ${schedules.columns(sql)}, plan_place as place,
           (select min(begins_at) from grants g
            where g.schedule_id = left_now.id and before_micros is null and voided_at is null) as next_begins_at
    from left_now order by plan_place`;
  const isStanding = sql`plan_id is not null and coalesce(rolls_until, expires_at, ${NEVER}) > ${nowMs}`;
  const isToCome = sql`schedule_id is not null and before_micros is null`;
  const which = isSame ? sql`${isStanding} and ${isToCome}` : isStanding;
  const voided = await voidGrants(sql, record, { which, reason: PLAN_CHANGED }, { ...maker, atMs: nowMs });
  await sql`
    update billing_records set ${set(sql, {
      planId: plan?.id ?? null,
      planVersion: plan?.version ?? null,
      // Another version does not keep it from leaving its plan when it was to.
      ...(!isSame && { nextPlanId: null, nextPlanAt: null }),
      planTokenId: maker.tokenId,
      planRequestId: maker.requestId,
      ...(plan && changedSettings(record, plan.settings, was)),
    })}
    where id = ${record.id}`;
  const lines: AuditLine[] = left.map((row) => schedules.recorded({ before: row }));
  for (const { row } of voided) {
    const after = { ...row, voidedAt: nowMs, voidReason: PLAN_CHANGED };
    lines.push(changedGrant({ before: row, after }));
  }
  if (plan && !isSame) lines.push(...(await grantOnce(sql, record, plan, giving)));
  if (plan) lines.push(...(await schedule(sql, record, plan, { left, was }, giving)));
  await noteCreditLooks(sql, [record.id]);
  return { voided, lines };
}

const PLAN_CHANGED = 'the plan was changed';

/** A schedule that the plan before gave, at its place there; and when the first of its periods begins that has yet to. */
type LeftSchedule = ScheduleRow & {
  place: number;
  nextBeginsAt: number | null;
};

/**
 * When the running period of a record's plan ends, the longest of several; undefined where it has none. What was granted tells it: a
 * schedule may have changed since. One that somebody voided was given too, and one that had begun before the clock was set back.
 */
export async function periodEnd(sql: Query, billingId: string, nowMs: number): Promise<number | undefined> {
  const [row] = await sql<[{ endsAt: number | null }]>`
    select max(expires_at) as ends_at from grants
    where billing_id = ${billingId} and plan_id is not null and schedule_id is not null
      and (begins_at <= ${nowMs} or before_micros is not null)
      and coalesce(rolls_until, expires_at, ${NEVER}) > ${nowMs} and expires_at > ${nowMs}
      and (voided_at is null or void_reason <> ${PLAN_CHANGED})`;
  return row.endsAt ?? undefined;
}

/** What a plan sets of a record. */
export const settingNames = ['allowOverages', 'spendCap', 'limits', 'alerts'] as const;
type Settings = Pick<PlanSettings, (typeof settingNames)[number]>;

/** The settings that a record is given, as they are stored: all, or, of those that another version of its plan gave, what is as that said. */
function changedSettings(record: BillingRow, settings: PlanSettings, was: PlanSettings | undefined) {
  const now: Settings = billings.present(record);
  const given = ({ allowOverages = false, ...rest }: PlanSettings): Settings => ({ ...rest, allowOverages });
  const isByHand = (name: keyof Settings) => was && !isDeepStrictEqual(now[name], given(was)[name]);
  const of = <Name extends keyof Settings>(name: Name) => (isByHand(name) ? now : given(settings))[name] ?? null;
  const spendCap = of('spendCap');
  const spendCapMicros = spendCap && creditsIn('spendCap', spendCap);
  return { allowOverages: of('allowOverages'), spendCapMicros, limits: of('limits'), alerts: of('alerts') };
}

async function grantOnce(
  sql: Query,
  record: BillingRow,
  { id: planId, settings: { grants = [] } }: PlanVersion,
  { maker, nowMs, limited }: Giving,
): Promise<AuditLine[]> {
  const given = await sql`
    select from grants where billing_id = ${record.id} and plan_id = ${planId} and schedule_id is null limit 1`;
  const lines: AuditLine[] = [];
  if (given.length > 0) return lines;
  for (const { credits, name, expiresIn, priority = 50 } of grants) {
    const expiresAt = expiresIn === undefined ? null : nowMs + expiresIn * 1000;
    const amountMicros = creditsIn('credits', credits);
    const grant = { id: newId('grant'), amountMicros, priority, beginsAt: nowMs, expiresAt, name, planId };
    try {
      await addGrant(sql, record, grant, maker, nowMs, { limited });
      lines.push(changedGrant({ after: await requireGrant(sql, record, grant.id) }));
    } catch (error) {
      if (limited) throw error;
      refuseButTooMany(error);
      lines.push({ resource: 'billing', id: record.id, after: { planId, notGranted: { credits, name } } });
    }
  }
  return lines;
}

/**
 * Adds the schedules of a plan. One with the units of one that was `left` has its anchor. In another version of the plan that a record
 * had (`was`), a schedule with the same periods at the same place goes on where that one stopped, and any other begins when what
 * runs has ended: no period is granted twice.
 */
async function schedule(
  sql: Query,
  record: BillingRow,
  { id: planId, settings }: PlanVersion,
  { left, was }: { left: LeftSchedule[]; was: PlanSettings | undefined },
  { maker, nowMs, anchorAt = nowMs, limited }: Giving,
): Promise<AuditLine[]> {
  const lines: AuditLine[] = [];
  const end = was && ((await periodEnd(sql, record.id, nowMs)) ?? nowMs);
  const going = left.filter((one) => one.anchorAt <= nowMs);
  const placed = new Map(left.map((one) => [one.place, one]));
  for (const [planPlace, { credits, rollover, timezone = 'UTC', ...one }] of (settings.schedules ?? []).entries()) {
    const earlier = was?.schedules?.[planPlace];
    if (earlier && !placed.has(planPlace)) continue;
    const goesOn = earlier && isDeepStrictEqual(periodsOf(earlier), periodsOf({ ...one, timezone }));
    const at = going.findIndex((other) => other.every === one.every && other.timezone === timezone);
    const before = goesOn ? placed.get(planPlace) : was || at < 0 ? undefined : going.splice(at, 1)[0];
    const from = (goesOn && before?.nextBeginsAt) || (end ?? nowMs);
    const wanted = {
      anchorAt: before?.anchorAt ?? end ?? anchorAt,
      ...one,
      timezone,
      planId,
      planPlace,
      amountMicros: creditsIn('credits', credits),
      rollMaxMicros: rollover ? creditsIn('rollover', rollover.maxCredits) : null,
    };
    const { row, notGranted } = await addSchedule(sql, record, wanted, maker, nowMs, { limited, from });
    lines.push(schedules.recorded({ after: row }), ...notGrantedLines(row, notGranted));
  }
  return lines;
}

type Periods = Pick<NonNullable<PlanSettings['schedules']>[number], 'every' | 'timezone' | 'anchorAt'>;
const periodsOf = ({ every, timezone = 'UTC', anchorAt }: Periods) => ({ every, timezone, anchorAt });
