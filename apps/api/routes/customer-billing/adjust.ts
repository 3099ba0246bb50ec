import { Type } from 'typebox';
import { firstOpenDay } from '../../../../shared/books/statements/closing.ts';
import { readBalances } from '../../../../shared/books/balances.ts';
import { MAX_MICROS, parseSignedCredits } from '../../../../shared/values/credits.ts';
import { hideSecrets } from '../../../../shared/values/secrets.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { dayOf } from '../../../../shared/events/event.ts';
import { newId } from '../../../../shared/values/ids.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import {
  day,
  id,
  named,
  object,
  requestIdText,
  signedCredits,
  textOf,
  timestamp,
  usageName,
} from '../../../../shared/contract/schema-kinds.ts';
import { lockBilling, type BillingRow } from '../../resources/billings/billings.ts';
import { route } from '../../http/route.ts';
import { present } from '../../resources/rows.ts';

const adjustment = named(
  'Adjustment',
  object({
    id: id('event', ' in the books'),
    billingId: id('billing record'),
    number: Type.Integer({
      minimum: 1,
      description: "number of the adjustment; each record's start at 1",
      examples: [3],
    }),
    amount: signedCredits('credits used in addition, or, if negative, given back'),
    usageName: Type.String({ maxLength: 128, examples: ['tokens'] }),
    day: day('the day it is booked on'),
    reason: Type.String({ maxLength: 512, examples: ['counted twice by the gateway'] }),
    tokenId: id('access token', ' that made the adjustment'),
    requestId: requestIdText('adjustment-3'),
    createdAt: timestamp('when it was made'),
  }),
);

export const adjustBilling = route('post', '/api/v1/customer-billing/{bid}/adjustment', {
  summary: 'Correct the used credits of a billing record, in its balance and in its books',
  description:
    'Adds a signed amount to what a billing record has used: for a refund, or for usage that was counted wrongly. The amount, its reason and its day stay in the books. A repeat with the same Idempotency-Key changes nothing.',
  permission: 'billing:write',
  status: 201,
  grows: true,
  idempotencyKeyRequired: true,
  body: object({
    amount: signedCredits('credits used in addition, or, if negative, given back'),
    reason: textOf(512, 'why; the books keep it', 'counted twice by the gateway'),
    day: Type.Optional(
      day(
        'the day to book it on, not before the month in which the workspace was made; default today in UTC, or the first day of the open month if that is later',
      ),
    ),
    usageName: Type.Optional(usageName('what is counted, default "default"')),
  }),
  response: object({ adjustment }),
  errors: ['workspace_deleted', 'month_closed', 'negative_usage', 'credits_too_large'],

  async handle({ sql, params, body, caller, changed, redis, requestId }) {
    // The row's lock: concurrent adjustments run one after the other, each with its own number.
    const record = await lockBilling(sql, caller, params.bid);
    const { amount } = body;
    const [reason, usageName] = [hideSecrets(body.reason), hideSecrets(body.usageName ?? 'default')];
    const amountMicros = parseSignedCredits(amount);
    if (!amountMicros)
      throw invalidField('/amount', 'must be from -9000000000 to 9000000000 and not 0, with at most six decimals');

    const [balance] = await readBalances(redis, [record]);
    if (!balance) throw new ApiError('redis_unavailable');
    // The lock of the workspace keeps a month from closing until this is stored.
    const { openDay, isFirst } = await firstOpenDay(sql, record.workspaceId);
    const today = dayOf(balance.atMs);
    // East of UTC a month may be over, and closed, while it is still its last day in UTC.
    const latest = openDay > today ? openDay : today;
    const bookedOn = body.day ?? latest;
    if (bookedOn > latest || (isFirst && bookedOn < openDay))
      throw invalidField(
        '/day',
        `must be a day from ${openDay} to ${latest}: from the first open month of the workspace to today in UTC, or to the first day of that month if that is later`,
      );
    const closed = `The day lies in a month that is closed, or being closed, and never changes; book it on ${openDay} or later.`;
    if (bookedOn < openDay) throw new ApiError('month_closed', { message: closed });
    if (balance.adjustment > record.lastAdjustment) throw new ApiError('postgres_stale');
    const usedMicros = balance.usedMicros + (await waiting(sql, record, balance.adjustment)) + amountMicros;
    if (usedMicros < 0) throw new ApiError('negative_usage');
    if (usedMicros > MAX_MICROS) throw new ApiError('credits_too_large');

    const number = record.lastAdjustment + 1;
    await sql`update billing_records set last_adjustment = ${number} where id = ${record.id}`;
    const { teamId, tokenId } = caller;
    const by = { teamId, tokenId, requestId, billingId: record.id };
    const values = { ...by, id: newId('evt'), number, amountMicros, usageName, day: bookedOn, reason };
    const [{ createdAt }] = await sql<[{ createdAt: Date }]>`
      insert into adjustments ${sql(values)} returning created_at`;
    const made = present(adjustment, { ...values, createdAt });
    changed({ resource: 'adjustment', id: made.id, after: made, shards: [record.shard] });
    return { adjustment: made };
  },
});

/** The sum of adjustments that are stored but not yet in force. */
async function waiting(sql: Query, record: BillingRow, applied: number): Promise<number> {
  const [row] = await sql<[{ micros: number }]>`
    select coalesce(sum(amount_micros), 0)::bigint as micros from adjustments
    where billing_id = ${record.id} and number > ${applied}`;
  return row.micros;
}
