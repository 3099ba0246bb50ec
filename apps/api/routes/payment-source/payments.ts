import { Type } from 'typebox';
import { named, object, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { everWithinSight } from '../../resources/access/access.ts';
import { lockPayments, notePayment, payment, payments, settlePayment } from '../../resources/payments/payments.ts';
import { paymentSources } from '../../resources/payments/sources.ts';
import { readStripeEvent } from '../../resources/payments/stripe-events.ts';
import { matching } from '../../resources/rows.ts';

const MOST_BYTES = 256 * 1024;

const heard = named(
  'PaymentHeard',
  object({
    done: Type.Enum(['SETTLED', 'NOTED', 'IGNORED'], {
      type: 'string',
      description:
        'SETTLED: the payment is as `payment` says, as it may have been before; NOTED: it is of a payment that is not told yet; IGNORED: there is nothing to do, and `reason` says why',
    }),
    reason: Type.Optional(plainText(128, 'why nothing is to do', 'the session is not paid')),
    payment: Type.Optional(payment),
  }),
);

export const hearPayment = route('post', '/api/v1/payment-source/{pid}/events', {
  summary: 'Take an event of a payment, as Stripe sends and signs it',
  description:
    'Each payment makes its credits once, however often and in whichever order its events come. A refund takes back what is left of them, up to its share. Whatever else is known by its signature is a 200, too.',
  signed: true,
  bodyLimit: MOST_BYTES,
  grows: true,
  body: Type.Unsafe<Record<string, unknown>>({
    title: 'PaymentEvent',
    type: 'object',
    maxProperties: MOST_BYTES,
    'x-limits': { maxBytes: MOST_BYTES, maxDepth: 32 },
    description: 'an event of Stripe',
    examples: [{ id: 'evt_1', type: 'payment_intent.succeeded', created: 1_795_162_200, data: { object: {} } }],
  }),
  // It is read, and never copied: names that others must not have do not matter.
  accepts: Type.Unsafe<Record<string, unknown>>({ type: 'object' }),
  response: heard,
  errors: ['workspace_deleted'],

  async handle({ sql, params, body, caller, changed, redis, requestId }) {
    const source = await paymentSources.require(sql, params.pid, sql`deleted_at is null`);
    const told = readStripeEvent(body, source.metadataField);
    if (told.is === 'nothing') return { done: 'IGNORED' as const, reason: told.why };
    if (told.is === 'paid' && !source.rules.some(({ event }) => event === told.paid.event))
      return { done: 'IGNORED' as const, reason: 'no rule of the source is for this event' };
    await lockPayments(sql, source.workspaceId);
    const row = await notePayment({ sql, redis, changed, source, maker: { ...caller, requestId } }, told);
    return row ? { done: 'SETTLED' as const, payment: payments.present(row) } : { done: 'NOTED' as const };
  },
});

export const listPayments = listRoute('/api/v1/payment-source/{pid}/payments', 'payments', payment, {
  summary: 'List the payments that a source told, oldest first',
  description: 'With what each became, or why it did not; also of a source that was deleted.',
  permission: 'billing:read',
  query: { state: Type.Optional({ ...payment.properties.state, description: 'only payments in this state' }) },

  async open({ sql, params, query, caller }) {
    const { id: sourceId } = await paymentSources.require(sql, params.pid, everWithinSight(sql, caller));
    return payments.list(sql, matching(sql, { sourceId, state: query.state }));
  },
});

export const applyPayment = route('post', '/api/v1/payment-source/{pid}/payment/{payid}/apply', {
  summary: 'Apply a payment again that granted nothing',
  description:
    'By the rules, and to the billing record, that are there now. What was granted is not granted again, and what was refunded meanwhile is left out.',
  permission: 'billing:write',
  grows: true,
  response: object({ payment }),
  errors: ['workspace_deleted'],

  async handle({ sql, params, caller, changed, redis, requestId }) {
    const source = await paymentSources.require(sql, params.pid, everWithinSight(sql, caller));
    await lockPayments(sql, source.workspaceId);
    const row = await payments.require(sql, params.payid, sql`source_id = ${source.id}`);
    const settled = await settlePayment({ sql, redis, changed, source, maker: { ...caller, requestId } }, row);
    return { payment: payments.present(settled) };
  },
});
