import { Type } from 'typebox';
import { noteReplenished } from '../../../../shared/books/credit-states.ts';
import { count, credits, id, named, object, plainText, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import type { Query, Transaction } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { MAX_MICROS, parseCredits } from '../../../../shared/values/credits.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import { readHeard } from '../../sync/accounts.ts';
import { billings, refuseDeletedWorkspace, type BillingRow } from '../billings/billings.ts';
import { addGrant, countBegun } from '../grants/classes.ts';
import { changedGrant, endOf, hasManyEnded, requireGrant } from '../grants/grants.ts';
import { refuseButTooMany } from '../grants/schedules.ts';
import { partGrant, voidGrant } from '../grants/voids.ts';
import { liftQuotas } from '../quotas.ts';
import type { SayChanged } from '../record.ts';
import { answered, columnsOf, lockName, stored, present, tableOf, without, type Row } from '../rows.ts';
import { paymentEvents, type PaymentRule, type SourceRow } from './sources.ts';
import type { Paid, PaymentNews } from './stripe-events.ts';

export const paymentStates = [
  'GRANTED',
  'REFUNDED',
  'CUSTOMER_UNKNOWN',
  'CUSTOMER_AMBIGUOUS',
  'OTHER_CURRENCY',
  'NO_RULE',
  'RULES_DIFFER',
  'TOO_MANY_CREDITS',
  'TOP_UP_PAID',
  'REFUND_WAITS',
] as const;
type State = (typeof paymentStates)[number];

export const payment = named(
  'Payment',
  object({
    id: id('payment'),
    objectId: plainText(255, 'id of what was paid: a payment intent, an invoice or a session', 'pi_3MtwBwLkdIwHu7ix'),
    event: Type.Enum([...paymentEvents], { type: 'string', description: 'what told it' }),
    state: Type.Enum([...paymentStates], {
      type: 'string',
      description:
        'GRANTED; REFUNDED before anything was granted; or why nothing was: apply it again once that is put right. TOP_UP_PAID: another payment was for the same top-up; REFUND_WAITS: 200 grants of the record ended within a day, apply its refund later',
    }),
    amount: count('what was paid, in minor units of the currency', 5_000),
    currency: plainText(3, 'its currency', 'usd'),
    refunded: count('what of it was given back', 0),
    customer: Type.Optional(plainText(255, 'who paid', 'cus_NciAYcXfLnqBoz')),
    externalMeterId: Type.Optional(plainText(256, 'the meter that its metadata name', 'acme')),
    topUpId: Type.Optional(plainText(256, 'the top-up that its metadata name', 'alert_01kafc6v3nf0qtmhd7d5ryx2s9')),
    billingId: Type.Optional(id('billing record')),
    grantId: Type.Optional(id('grant')),
    credits: Type.Optional(credits('what it makes')),
    voidedCredits: Type.Optional(credits('what of that was refunded')),
    paidAt: timestamp('when it was told'),
    createdAt: timestamp('when it was first heard of'),
  }),
);

const columns = without(payment, ['credits', 'voidedCredits']);
export type PaymentRow = Row<typeof columns> & {
  creditsMicros: number | null;
  voidedMicros: number | null;
};

const table = tableOf<PaymentRow>(
  'payments',
  `${columnsOf(columns)}, credits_micros, voided_micros`,
  'payment_not_found',
);
export const payments = answered('payment', table, (row) => present(payment, row));

/** What payments are settled with, in a transaction that holds `lockPayments`. */
export type Settling = {
  sql: Query;
  redis: ShardedRedis;
  changed: SayChanged;
  source: SourceRow;
  maker: { teamId: string; tokenId: string; requestId: string };
};

/**
 * Lets one event after the other say something of the payments of a workspace, whichever process and source it comes to. So a payment
 * that is told twice at once is there for the second, and its refund is either before it or after it.
 */
export async function lockPayments(sql: Query, workspaceId: string): Promise<void> {
  await lockName(sql, `payments of ${workspaceId}`);
  // What was paid is granted, and what was refunded is taken back.
  await liftQuotas(sql);
}

/** Notes what an event says; gives the payment that it concerns as it then is, where that was told. */
export async function notePayment(
  settling: Settling,
  told: Exclude<PaymentNews, { is: 'nothing' }>,
): Promise<PaymentRow | undefined> {
  const { sql, source, maker } = settling;
  const { workspaceId } = source;
  const { teamId } = maker;
  const objectId = await objectOf(settling, told.names);
  if (told.is === 'refunded')
    await sql`
      insert into payment_refunds as known (workspace_id, charge_id, team_id, name, refunded)
      values (${workspaceId}, ${told.chargeId}, ${teamId}, ${objectId}, ${told.refunded})
      on conflict (workspace_id, charge_id) do update set refunded = greatest(known.refunded, excluded.refunded)`;
  const isNew = told.is === 'paid' && (await insertPayment(settling, objectId, told.paid));
  const [row] = await sql<PaymentRow[]>`
    select ${payments.columns(sql)} from payments where workspace_id = ${workspaceId} and object_id = ${objectId}`;
  return row && settlePayment(settling, row, isNew);
}

/** By which of its names a payment is known; from now on all of them lead to it. Where two were told that are one, the one granted first stays. */
async function objectOf(settling: Settling, names: string[]): Promise<string> {
  const { sql, source, maker } = settling;
  const { workspaceId } = source;
  const known = await sql<{ objectId: string }[]>`
    select n.object_id from payment_names n left join payments p on p.workspace_id = n.workspace_id and p.object_id = n.object_id
    where n.workspace_id = ${workspaceId} and n.name = any(${names})
    group by n.object_id order by bool_or(p.grant_id is not null) desc, min(p.id), n.object_id`;
  const objectId = known[0]?.objectId ?? names[0]!;
  const others = known.slice(1).map((one) => one.objectId);
  await sql`
    update payment_names set object_id = ${objectId}
    where workspace_id = ${workspaceId} and object_id = any(${others})`;
  await sql`
    insert into payment_names (workspace_id, name, team_id, object_id)
    select ${workspaceId}, name, ${maker.teamId}, ${objectId} from unnest(${names}::text[]) as name
    on conflict do nothing`;
  const told = await sql<PaymentRow[]>`
    select ${payments.columns(sql)} from payments where workspace_id = ${workspaceId} and object_id = any(${others}) order by id`;
  for (const row of told) await settlePayment(settling, row);
  return objectId;
}

/** Gives whether it is new. What was not granted is as the source that tells it again says: the one before may be deleted. */
async function insertPayment({ sql, source, maker }: Settling, objectId: string, paid: Paid): Promise<boolean> {
  const by = { id: newId('pay'), teamId: maker.teamId, workspaceId: source.workspaceId, sourceId: source.id };
  const [row] = await sql<{ isNew: boolean }[]>`
    insert into payments ${sql(stored(sql, { ...by, objectId, state: 'NO_RULE', ...paid }))}
    on conflict (workspace_id, object_id) do update
    set source_id = excluded.source_id, event = excluded.event, amount = excluded.amount, currency = excluded.currency,
        customer = excluded.customer, external_meter_id = excluded.external_meter_id, top_up_id = excluded.top_up_id,
        prices = excluded.prices, paid_at = excluded.paid_at
    where payments.grant_id is null
    returning xmax = 0 as is_new`;
  return row?.isNew === true;
}

/** Does what is still to do for a payment: grants its credits, or takes back what was refunded of them. Gives it as it is then. */
export async function settlePayment(settling: Settling, row: PaymentRow, isNew = false): Promise<PaymentRow> {
  const { sql, source, changed } = settling;
  // Whichever of its names a refund was told by. Without names it turned out to be another payment, and is as if given back.
  const [{ refunded }] = await sql<[{ refunded: number }]>`
    select case when count(n.name) = 0 then ${row.amount} else least(coalesce(sum(r.refunded), 0), ${row.amount}) end::bigint as refunded
    from payment_names n left join payment_refunds r on r.workspace_id = n.workspace_id and r.name = n.name
    where n.workspace_id = ${source.workspaceId} and n.object_id = ${row.objectId}`;
  const now = { ...row, refunded };
  const done = row.grantId === null ? await grantPayment(settling, now) : await voidRefunded(settling, now);
  if (!isNew && refunded === row.refunded && Object.keys(done).length === 0) return row;
  const after = { ...now, ...done };
  const { state, billingId, grantId, creditsMicros, voidedMicros } = after;
  await sql`
    update payments set refunded = ${refunded}, state = ${state}, billing_id = ${billingId}, grant_id = ${grantId},
           credits_micros = ${creditsMicros}, voided_micros = ${voidedMicros}
    where id = ${row.id}`;
  payments.say(changed, { ...(!isNew && { before: row }), after });
  return after;
}

/** What of a payment's credits goes with what was refunded of it: exact, and no more than its share. */
export function refundedShare(creditsMicros: number, refunded: number, amount: number): number {
  return Number((BigInt(creditsMicros) * BigInt(refunded)) / BigInt(amount));
}

/** How many of each, which may be many: no list reads them. */
type Prices = Record<string, number> | null;

type Change = Partial<Pick<PaymentRow, 'state' | 'billingId' | 'grantId' | 'creditsMicros' | 'voidedMicros'>>;

async function grantPayment(settling: Settling, row: PaymentRow): Promise<Change> {
  const { sql, source } = settling;
  const [{ prices }] = await sql<[{ prices: Prices }]>`select prices from payments where id = ${row.id}`;
  const found = creditsOf(source.rules, { ...row, prices });
  if (typeof found === 'string') return { state: found };
  const { micros: creditsMicros, rule } = found;
  const voidedMicros = refundedShare(creditsMicros, row.refunded, row.amount);
  if (voidedMicros === creditsMicros) return { state: 'REFUNDED', creditsMicros, voidedMicros };
  if (row.topUpId !== null && (await isTopUpPaid(settling, row))) return { state: 'TOP_UP_PAID' };
  const [record, ...others] = await findRecords(sql, source, row);
  if (!record) return { state: 'CUSTOMER_UNKNOWN' };
  if (others.length > 0) return { state: 'CUSTOMER_AMBIGUOUS' };
  const grantId = await grant(settling, row, record, { micros: creditsMicros - voidedMicros, rule });
  if (grantId === undefined) return { state: 'TOO_MANY_CREDITS' };
  return { state: 'GRANTED', billingId: record.id, grantId, creditsMicros, voidedMicros };
}

/** How many credits rules make of a payment, and by which rule; or why none. */
export function creditsOf(
  rules: readonly PaymentRule[],
  row: Pick<PaymentRow, 'event' | 'currency' | 'amount'> & { prices: Prices },
): { micros: number; rule: PaymentRule } | State {
  const ofEvent = rules.filter(({ event }) => event === row.event);
  const fitting = ofEvent.filter(({ currency }) => currency === row.currency);
  if (ofEvent.length > 0 && fitting.length === 0) return 'OTHER_CURRENCY';
  const prices = Object.entries(row.prices ?? {});
  const priced = prices.flatMap(([price, quantity]) => {
    const rule = fitting.find((one) => one.price === price);
    return rule ? [{ rule, micros: BigInt(parseCredits(rule.credits!)!) * BigInt(quantity) }] : [];
  });
  const byAmount = fitting.find(({ price }) => price === undefined);
  // Without all of its lines nobody knows what a rule by price makes of an invoice.
  const isWhole = row.prices !== null || fitting.every(({ price }) => price === undefined);
  const amounts =
    priced.length === 0 && byAmount && isWhole
      ? [{ rule: byAmount, micros: BigInt(parseCredits(byAmount.creditsPerUnit!)!) * BigInt(row.amount) }]
      : priced;
  const [first, ...more] = amounts;
  if (!first) return 'NO_RULE';
  const isOther = ({ rule }: typeof first) =>
    rule.expiresAfterDays !== first.rule.expiresAfterDays || (rule.priority ?? 50) !== (first.rule.priority ?? 50);
  if (more.some(isOther)) return 'RULES_DIFFER';
  const micros = amounts.reduce((sum, one) => sum + one.micros, 0n);
  if (micros > BigInt(MAX_MICROS)) return 'TOO_MANY_CREDITS';
  return { micros: Number(micros), rule: first.rule };
}

/** Whether another payment of the same top-up made credits that were not given back. */
async function isTopUpPaid({ sql, source }: Settling, { id: paymentId, topUpId }: PaymentRow): Promise<boolean> {
  const rows = await sql`
    select from payments where workspace_id = ${source.workspaceId} and top_up_id = ${topUpId} and id <> ${paymentId}
      and grant_id is not null and voided_micros < credits_micros limit 1`;
  return rows.length > 0;
}

/** The records that a payment may be for: that of its top-up, else of the meter that it names, else of its customer. */
async function findRecords(sql: Query, source: SourceRow, row: PaymentRow): Promise<BillingRow[]> {
  const { workspaceId, destinationId } = source;
  const found = async (condition: ReturnType<Query>) => sql<BillingRow[]>`
    select ${billings.columns(sql)} from billing_records where workspace_id = ${workspaceId} and ${condition} order by id limit 2`;
  if (row.topUpId !== null) {
    const ofTopUp = await found(sql`id in (select billing_id from alerts_told where id = ${row.topUpId})`);
    if (ofTopUp.length > 0) return ofTopUp;
  }
  if (row.externalMeterId !== null) return found(sql`external_meter_id = ${row.externalMeterId}`);
  if (row.customer === null) return [];
  if (destinationId === null) return found(sql`external_meter_id = ${row.customer}`);
  const elsewhere = JSON.stringify({ [destinationId]: row.customer });
  return found(sql`external_ids is not null and external_ids::jsonb @> ${elsewhere}::text::jsonb`);
}

/** Grants credits as a request does, but for what bounds how many kinds a record may have: they are paid. Undefined where they would be too many. */
async function grant(
  { sql, redis, changed, maker }: Settling,
  { id: paymentId, objectId }: PaymentRow,
  { id: billingId }: BillingRow,
  { micros, rule }: { micros: number; rule: PaymentRule },
): Promise<string | undefined> {
  const record = await billings.require(sql, billingId, sql`true`, { alone: true });
  await refuseDeletedWorkspace(sql, record);
  const { balance } = await readHeard(redis, record);
  const { name, priority = 50, expiresAfterDays } = rule;
  const expiresAt = expiresAfterDays === undefined ? null : endAfter(balance.atMs, expiresAfterDays);
  const made = {
    id: newId('grant'),
    amountMicros: micros,
    priority,
    beginsAt: balance.atMs,
    expiresAt,
    name,
    metadata: { paymentId, objectId },
  };
  try {
    const bounds = { limited: false, paid: true };
    await (sql as Transaction).savepoint((inner) => addGrant(inner, record, made, maker, balance.atMs, bounds));
  } catch (error) {
    refuseButTooMany(error);
    return undefined;
  }
  changed({ resource: 'billing', id: billingId, shards: [record.shard] });
  await noteReplenished(sql, [billingId]);
  changed(changedGrant({ after: await requireGrant(sql, record, made.id) }));
  return made.id;
}

/** The end of credits for so many days: a Monday, or the first of a month after more than 366, so that a record has few ends. */
export function endAfter(atMs: number, days: number): number {
  const day = Math.floor(atMs / DAY_MS) + 1 + days;
  if (days <= 366) return (Math.ceil((day - MONDAY) / 7) * 7 + MONDAY) * DAY_MS;
  const last = new Date((day - 1) * DAY_MS);
  return Date.UTC(last.getUTCFullYear(), last.getUTCMonth() + 1);
}

// Of 1970, the first.
const MONDAY = 4;

/** Voids what is left of a payment's grant, as far as the share of its refunds is not yet. */
async function voidRefunded({ sql, redis, changed, maker }: Settling, row: PaymentRow): Promise<Change> {
  const voidedMicros = refundedShare(row.creditsMicros!, row.refunded, row.amount);
  const micros = voidedMicros - row.voidedMicros!;
  if (micros <= 0) return {};
  const record = await billings.require(sql, row.billingId!, sql`true`, { alone: true });
  const account = await readHeard(redis, record);
  const { atMs } = account.balance;
  await countBegun(sql, record, atMs);
  const before = await requireGrant(sql, record, row.grantId!);
  // Somebody voided it, or it has ended: nothing is left of it.
  if (before.voidedAt !== null || endOf(before) <= atMs) return { state: 'GRANTED', voidedMicros };
  if (hasManyEnded(account)) return { state: 'REFUND_WAITS' };
  const partId = micros < before.amountMicros ? await partGrant(sql, before.id, micros) : before.id;
  const part = await requireGrant(sql, record, partId);
  const adjustmentId = await voidGrant(
    sql,
    record,
    { ...part, voidedAt: atMs, voidReason: 'its payment was refunded' },
    { ...maker, atMs },
  );
  changed({ resource: 'billing', id: record.id, shards: [record.shard] });
  changed({ resource: 'adjustment', id: adjustmentId, shards: [record.shard] });
  const after = await requireGrant(sql, record, partId);
  changed(changedGrant({ before: part, after }));
  return { state: 'GRANTED', voidedMicros };
}
