import { isDeepStrictEqual } from 'node:util';
import { noteCreditLooks } from '../../../../shared/books/credit-states.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { NEVER } from '../../../../shared/stores/account-settings.ts';
import { periodAt, periodStart } from '../../../../shared/values/calendar.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { billingSettings, creditsIn, type BillingRow } from '../billings/billings.ts';
import { addGrant, countBegun, type GrantMaker } from '../grants/classes.ts';
import type { GrantRow } from '../grants/grants.ts';
import { addSchedule, schedules, type ScheduleRow } from '../grants/schedules.ts';
import { voidGrants } from '../grants/voids.ts';
import { jsonValue } from '../keys/keys.ts';
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
 *   version follow them.
 * What somebody granted or scheduled by hand stays. Gives what it voided. Redis has heard of all changes of the record (heard.ts).
 */
export async function givePlan(sql: Query, record: BillingRow, plan: PlanVersion | undefined, giving: Giving) {
  const { maker, nowMs } = giving;
  const isSame = plan !== undefined && plan.id === record.planId;
  const was = isSame ? await requireVersion(sql, plan.id, record.planVersion!) : undefined;
  await countBegun(sql, record, nowMs);
  const left = await sql<ScheduleRow[]>`
    update grant_schedules set deleted_at = now() where billing_id = ${record.id} and plan_id is not null and deleted_at is null
    returning ${schedules.columns(sql)}`;
  const isStanding = sql`plan_id is not null and coalesce(rolls_until, expires_at, ${NEVER}) > ${nowMs}`;
  const isToCome = sql`schedule_id is not null and before_micros is null`;
  const which = isSame ? sql`${isStanding} and ${isToCome}` : isStanding;
  const voided = await voidGrants(sql, record, { which, reason: 'the plan was changed' }, { ...maker, atMs: nowMs });
  await sql`
    update billing_records set ${set(sql, {
      planId: plan?.id ?? null,
      planVersion: plan?.version ?? null,
      // Another version does not keep it from leaving its plan when it was to.
      ...(!isSame && { nextPlanId: null, nextPlanAt: null }),
      planTokenId: maker.tokenId,
      planRequestId: maker.requestId,
      ...(plan && storedSettings(sql, changedSettings(record, plan.settings, was))),
    })}
    where id = ${record.id}`;
  if (plan) await grantOnce(sql, record, plan, giving);
  if (plan) await schedule(sql, record, plan, { left, isSame }, giving);
  await noteCreditLooks(sql, [record.id]);
  return voided;
}

/** What givePlan voided. */
export type Voided = { row: GrantRow; adjustmentId: string }[];

/** When the running period of a record's plan ends, the longest of several; undefined where it has none. */
export async function periodEnd(sql: Query, billingId: string, nowMs: number): Promise<number | undefined> {
  const rows = await sql<ScheduleRow[]>`
    select ${schedules.columns(sql)} from grant_schedules
    where billing_id = ${billingId} and plan_id is not null and deleted_at is null`;
  return rows.length === 0 ? undefined : Math.max(...rows.map((row) => endOfRunning(row, nowMs)));
}

/** When the running period of a schedule ends; before the first one, when that begins. */
function endOfRunning({ every, timezone, anchorAt }: ScheduleRow, nowMs: number): number {
  const recurrence = { every, timezone, anchorMs: anchorAt };
  return periodStart(recurrence, Math.max(periodAt(recurrence, nowMs), -1) + 1);
}

const settingNames = ['allowOverages', 'spendCap', 'limits', 'alerts'] as const;
type Settings = Pick<PlanSettings, (typeof settingNames)[number]>;

/** What changes of a record's settings: all, or, of those that another version of its plan gave, what is as that said. */
function changedSettings(record: BillingRow, settings: PlanSettings, was: PlanSettings | undefined): Settings {
  const now: Settings = billingSettings(record);
  const given = ({ allowOverages = false, ...rest }: PlanSettings): Settings => ({ ...rest, allowOverages });
  const isByHand = (name: keyof Settings) => was && !isDeepStrictEqual(now[name], given(was)[name]);
  return Object.fromEntries(settingNames.map((name) => [name, (isByHand(name) ? now : given(settings))[name]]));
}

function storedSettings(sql: Query, { allowOverages, spendCap, limits, alerts }: Settings) {
  return {
    allowOverages,
    spendCapMicros: spendCap === undefined ? null : creditsIn('spendCap', spendCap),
    limits: jsonValue(sql, limits) ?? null,
    alerts: jsonValue(sql, alerts) ?? null,
  };
}

async function grantOnce(
  sql: Query,
  record: BillingRow,
  { id: planId, settings: { grants = [] } }: PlanVersion,
  { maker, nowMs, limited }: Giving,
): Promise<void> {
  const given = await sql`
    select from grants where billing_id = ${record.id} and plan_id = ${planId} and schedule_id is null limit 1`;
  if (given.length > 0) return;
  for (const { credits, name, expiresIn, priority = 50 } of grants) {
    const expiresAt = expiresIn === undefined ? null : nowMs + expiresIn * 1000;
    const amountMicros = creditsIn('credits', credits);
    const grant = { id: newId('grant'), amountMicros, priority, beginsAt: nowMs, expiresAt, name, planId };
    await addGrant(sql, record, grant, maker, nowMs, { limited });
  }
}

/** Adds the schedules of a plan. One with the units of one that was `left` has its anchor; of the same plan it begins where that one's running period ends. */
async function schedule(
  sql: Query,
  record: BillingRow,
  { id: planId, settings }: PlanVersion,
  { left, isSame }: { left: ScheduleRow[]; isSame: boolean },
  { maker, nowMs, anchorAt = nowMs, limited }: Giving,
): Promise<void> {
  const going = [...left];
  for (const { credits, rollover, timezone = 'UTC', ...one } of settings.schedules ?? []) {
    const at = going.findIndex((other) => other.every === one.every && other.timezone === timezone);
    const [before] = at < 0 ? [] : going.splice(at, 1);
    const wanted = {
      anchorAt: before?.anchorAt ?? anchorAt,
      ...one,
      timezone,
      planId,
      amountMicros: creditsIn('credits', credits),
      rollMaxMicros: rollover ? creditsIn('rollover', rollover.maxCredits) : null,
    };
    const from = isSame && before ? endOfRunning(before, nowMs) : nowMs;
    await addSchedule(sql, record, wanted, maker, nowMs, { limited, from });
  }
}
