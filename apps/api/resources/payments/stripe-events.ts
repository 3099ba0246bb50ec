import type { paymentEvents } from './sources.ts';

/** A payment as its event tells it. */
export type Paid = {
  event: (typeof paymentEvents)[number];
  /** In minor units of the currency. */
  amount: number;
  currency: string;
  customer: string | undefined;
  externalMeterId: string | undefined;
  topUpId: string | undefined;
  /** How many of each price; undefined where the event does not have them all. */
  prices: Record<string, number> | undefined;
  paidAt: Date;
};

/** What an event says. `names` are those of one payment, the one first by which it is known from then on. */
export type PaymentNews =
  | { is: 'paid'; names: string[]; paid: Paid }
  /** Of a charge so much was given back in all. */
  | { is: 'refunded'; names: string[]; chargeId: string; refunded: number }
  | { is: 'linked'; names: string[] }
  | { is: 'nothing'; why: string };

type Json = Record<string, unknown>;

const MOST_PRICES = 100;
const YEAR_10000 = Date.UTC(10_000, 0) / 1_000;

/** Reads an event of Stripe, of any version of its API since 2020. */
export function readStripeEvent(event: Json, metadataField: string | null): PaymentNews {
  const object = part(part(event, 'data'), 'object');
  const { invoice, payment_intent: intent } = object;
  const at = event['created'];
  const base = {
    // Postgres and ISO 8601 end with the year 9999.
    paidAt: new Date(isCount(at) && at < YEAR_10000 ? at * 1_000 : NaN),
    customer: shortText(part(object, 'customer')['id'] ?? object['customer']),
  };
  if (Number.isNaN(base.paidAt.getTime())) return nothing('it does not say when it was made');

  switch (event['type']) {
    case 'checkout.session.completed':
    case 'checkout.session.async_payment_succeeded':
      if (object['payment_status'] !== 'paid') return nothing('the session is not paid');
      if (idOf(invoice)) return nothing('the session has an invoice, and that counts');
      return paid([intent, object['id']], object['amount_total'], 'checkout.session.completed', object['metadata']);
    case 'invoice.paid':
    case 'invoice.payment_succeeded': {
      const subscription = part(part(object, 'parent'), 'subscription_details');
      const old = part(object, 'subscription_details');
      const metadata = { ...part(old, 'metadata'), ...part(subscription, 'metadata'), ...part(object, 'metadata') };
      return paid(
        [object['id'], intent],
        object['amount_paid'],
        'invoice.paid',
        metadata,
        pricesOf(part(object, 'lines')),
      );
    }
    case 'payment_intent.succeeded':
      return paid([invoice, object['id']], object['amount_received'], 'payment_intent.succeeded', object['metadata']);
    case 'charge.refunded': {
      const chargeId = idOf(object['id']);
      const refunded = object['amount_refunded'];
      if (!chargeId || !isCount(refunded)) return nothing('it is no charge');
      const names = namesOf(invoice, intent);
      return { is: 'refunded', names: names.length > 0 ? names : [chargeId], chargeId, refunded };
    }
    case 'invoice_payment.paid': {
      const names = namesOf(invoice, part(object, 'payment')['payment_intent']);
      return names.length < 2 ? nothing('it names no payment intent') : { is: 'linked', names };
    }
    default:
      return nothing('such events say nothing of payments');
  }

  function paid(
    ids: unknown[],
    amount: unknown,
    by: Paid['event'],
    metadata: unknown,
    prices?: Paid['prices'] | null,
  ): PaymentNews {
    const names = namesOf(...ids);
    const { currency } = object;
    if (names.length === 0) return nothing('it has no id');
    if (!isCount(amount) || amount === 0) return nothing('nothing was paid');
    if (typeof currency !== 'string' || !/^[a-z]{3}$/.test(currency)) return nothing('it has no currency');
    const of = (field: string) => shortText((metadata as Json | null | undefined)?.[field]);
    const price = of('keytally_price');
    return {
      is: 'paid',
      names,
      paid: {
        ...base,
        event: by,
        amount,
        currency,
        externalMeterId: metadataField === null ? undefined : of(metadataField),
        topUpId: of('keytally_top_up'),
        prices: prices === undefined ? (price === undefined ? {} : { [price]: 1 }) : (prices ?? undefined),
      },
    };
  }
}

/**
 * How many of each price an invoice has; null where not all of its lines are there. A part of a period is no whole of its price,
 * and what costs nothing is not paid.
 */
function pricesOf({ data, has_more: hasMore }: Json): Record<string, number> | null {
  if (!Array.isArray(data) || hasMore === true) return null;
  const prices = new Map<string, number>();
  for (const line of data.map((one) => part({ one }, 'one'))) {
    const isPart =
      line['proration'] === true || part(part(line, 'parent'), 'subscription_item_details')['proration'] === true;
    const price = idOf(part(part(line, 'pricing'), 'price_details')['price']) ?? idOf(line['price']);
    const quantity = line['quantity'] ?? 1;
    if (isPart || price === undefined || !(Number(line['amount']) > 0)) continue;
    if (!isCount(quantity)) return null;
    // A fee beside a count, in a period that counted nothing.
    if (quantity === 0) continue;
    prices.set(price, (prices.get(price) ?? 0) + quantity);
  }
  return prices.size > MOST_PRICES ? null : Object.fromEntries(prices);
}

function nothing(why: string): PaymentNews {
  return { is: 'nothing', why };
}

function namesOf(...values: unknown[]): string[] {
  return [...new Set(values.flatMap((value) => idOf(value) ?? []))];
}

/** The id of an object, which is there as such or as a whole. */
function idOf(value: unknown): string | undefined {
  const text = typeof value === 'object' && value !== null ? (value as Json)['id'] : value;
  return typeof text === 'string' && /^\w{1,255}$/.test(text) ? text : undefined;
}

/** Text as a record may have it: without control characters, which Postgres does not take all. */
function shortText(value: unknown): string | undefined {
  // oxlint-disable-next-line no-control-regex -- these are what is meant
  return typeof value === 'string' && /^[^\u0000-\u001f\u007f\ud800-\udfff]{1,256}$/u.test(value) ? value : undefined;
}

function part(of: Json, name: string): Json {
  const value: unknown = of[name];
  return typeof value === 'object' && value !== null ? (value as Json) : {};
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
