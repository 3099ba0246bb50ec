import { createRequire } from 'node:module';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isSignedByStripe, readStripeSignature } from '../../../../shared/values/stripe-signature.ts';
import { creditsOf, endAfter, refundedShare } from './payments.ts';
import type { PaymentRule } from './sources.ts';
import { readStripeEvent } from './stripe-events.ts';

// Stripe's own library signs; its types are not needed.
const Stripe = createRequire(import.meta.url)('stripe');
const { webhooks } = new Stripe('sk_test_none');
const NOW_MS = 1_795_162_200_000;
const NOW = NOW_MS / 1_000;

const read = (type: string, object: object, field: string | null = null) =>
  readStripeEvent({ type, created: NOW, data: { object } }, field);
const line = (price: string, more: object = {}) => ({
  pricing: { price_details: { price } },
  quantity: 1,
  amount: 900,
  ...more,
});
const SESSION = { id: 'cs_1', payment_status: 'paid', amount_total: 500, currency: 'usd', payment_intent: 'pi_1' };
const INVOICE = { id: 'in_1', amount_paid: 900, currency: 'eur', customer: 'cus_1', lines: { data: [line('a')] } };
const INTENT = { id: 'pi_1', amount_received: 500, currency: 'jpy' };
const CHARGE = { id: 'ch_1', amount_refunded: 200, payment_intent: 'pi_1' };

test('each event of a payment says which it is of, how much was paid and by whom, in old and new versions of Stripe', () => {
  const said = (type: string, object: object) => {
    const told = read(type, object, 'meter');
    if (told.is === 'nothing') return told.why;
    if (told.is === 'refunded') return [told.names, told.refunded];
    if (told.is === 'linked') return told.names;
    const { event, amount, currency, customer, externalMeterId, topUpId, prices } = told.paid;
    return [told.names, event, amount, currency, customer ?? externalMeterId ?? topUpId ?? '', prices];
  };
  const session = (more: object = {}) => said('checkout.session.completed', { ...SESSION, ...more });
  const invoice = (more: object = {}) => said('invoice.paid', { ...INVOICE, ...more });
  const bySession = [['pi_1', 'cs_1'], 'checkout.session.completed', 500, 'usd'];
  assert.equal(session(), [...bySession, '', {}]);
  assert.equal(said('checkout.session.async_payment_succeeded', SESSION), [...bySession, '', {}]);
  assert.equal(session({ customer: { id: 'cus_2' } }), [...bySession, 'cus_2', {}]);
  assert.equal(session({ metadata: { meter: 'acmé 1' } }), [...bySession, 'acmé 1', {}]);
  assert.equal(session({ metadata: { keytally_top_up: 'alert_1' } }), [...bySession, 'alert_1', {}]);
  assert.equal(session({ metadata: { keytally_price: 'a' } }), [...bySession, '', { a: 1 }]);
  assert.equal(session({ metadata: { meter: 'a\u0000' } }), [...bySession, '', {}]);
  const byInvoice = ['invoice.paid', 900, 'eur', 'cus_1'];
  assert.equal(invoice(), [['in_1'], ...byInvoice, { a: 1 }]);
  assert.equal(said('invoice.payment_succeeded', INVOICE), [['in_1'], ...byInvoice, { a: 1 }]);
  assert.equal(invoice({ payment_intent: 'pi_1' }), [['in_1', 'pi_1'], ...byInvoice, { a: 1 }]);
  const data = [line('a', { quantity: 2 }), line('a'), { price: { id: 'b' }, amount: 1 }, { quantity: 5 }];
  assert.equal(invoice({ lines: { data } }), [['in_1'], ...byInvoice, { a: 3, b: 1 }]);
  const parts = [
    line('a', { proration: true }),
    line('a', { parent: { subscription_item_details: { proration: true } } }),
  ];
  assert.equal(invoice({ lines: { data: parts } }), [['in_1'], ...byInvoice, {}]);
  const many = Array.from({ length: 101 }, (_, n) => line(`p${n}`));
  assert.equal(invoice({ lines: { data: many } }), [['in_1'], ...byInvoice, undefined]);
  const free = [
    null,
    line('a', { quantity: 0 }),
    line('a', { amount: 0 }),
    line('a', { amount: -1 }),
    line('a', { amount: undefined }),
  ];
  assert.equal(invoice({ lines: { data: free } }), [['in_1'], ...byInvoice, {}]);
  assert.equal(invoice({ lines: { data, has_more: true } }), [['in_1'], ...byInvoice, undefined]);
  const details = { subscription_details: { metadata: { meter: 'm' } } };
  for (const one of [details, { parent: details }])
    assert.equal(invoice({ ...one, customer: null }), [['in_1'], 'invoice.paid', 900, 'eur', 'm', { a: 1 }]);
  const byIntent = ['payment_intent.succeeded', 500, 'jpy', '', {}];
  assert.equal(said('payment_intent.succeeded', INTENT), [['pi_1'], ...byIntent]);
  assert.equal(said('payment_intent.succeeded', { ...INTENT, invoice: 'in_1' }), [['in_1', 'pi_1'], ...byIntent]);
  assert.equal(said('charge.refunded', CHARGE), [['pi_1'], 200]);
  assert.equal(said('charge.refunded', { ...CHARGE, invoice: 'in_1' }), [['in_1', 'pi_1'], 200]);
  assert.equal(said('charge.refunded', { ...CHARGE, payment_intent: null }), [['ch_1'], 200]);
  const link = { id: 'inpay_1', invoice: 'in_1', payment: { type: 'payment_intent', payment_intent: 'pi_1' } };
  assert.equal(said('invoice_payment.paid', link), ['in_1', 'pi_1']);
  assert.equal(session({ payment_status: 'unpaid' }), 'the session is not paid');
  assert.equal(session({ invoice: 'in_1' }), 'the session has an invoice, and that counts');
  for (const amount_total of [0, -1, 1.5, '500', null])
    assert.equal(session({ amount_total }), 'nothing was paid', String(amount_total));
  assert.equal(session({ currency: 'US' }), 'it has no currency');
  assert.equal(session({ id: 'cs 1', payment_intent: 7 }), 'it has no id');
  assert.equal(said('charge.refunded', { ...CHARGE, amount_refunded: '200' }), 'it is no charge');
  assert.equal(said('payment_intent.payment_failed', INTENT), 'such events say nothing of payments');
  for (const created of [undefined, 1e12])
    assert.is(readStripeEvent({ type: 'invoice.paid', created, data: { object: INVOICE } }, null).is, 'nothing');
});

test('rules make exact credits of prices or of an amount, in their own currency alone', () => {
  const amount: PaymentRule = { event: 'invoice.paid', currency: 'usd', creditsPerUnit: '0.01' };
  const price = (id: string, credits: string, more: object = {}) =>
    ({ event: 'invoice.paid', currency: 'usd', price: id, credits, ...more }) as PaymentRule;
  const yen = { ...amount, currency: 'jpy', creditsPerUnit: '1.5' };
  const rules = [price('a', '1000'), price('b', '0.5'), price('c', '1', { priority: 10 }), amount, yen];
  const made = (more: object, by = rules) => {
    const found = creditsOf(by, { event: 'invoice.paid', currency: 'usd', amount: 1_999, prices: {}, ...more });
    return typeof found === 'string' ? found : found.micros;
  };
  for (const [more, found, by] of [
    [{}, 19_990_000],
    [{ currency: 'jpy', amount: 3 }, 4_500_000],
    [{ prices: { a: 2, b: 1, z: 9 } }, 2_000_500_000],
    [{ prices: { c: 1 } }, 1_000_000],
    [{ prices: { z: 1 } }, 19_990_000],
    [{ prices: { a: 1, c: 1 } }, 'RULES_DIFFER'],
    [{ prices: null }, 'NO_RULE'],
    [{ prices: null }, 19_990_000, [amount]],
    [{ prices: { z: 1 } }, 'NO_RULE', [price('a', '1')]],
    [{ currency: 'eur' }, 'OTHER_CURRENCY'],
    [{ event: 'checkout.session.completed' }, 'NO_RULE'],
    [{ amount: Number.MAX_SAFE_INTEGER }, 'TOO_MANY_CREDITS'],
    [{ prices: { a: 9_000_000 } }, 9_000_000_000_000_000],
    [{ prices: { a: 9_000_001 } }, 'TOO_MANY_CREDITS'],
  ] as [object, number | string, PaymentRule[]?][])
    assert.is(made(more, by), found, JSON.stringify(more));
  const shares = [refundedShare(10_000_000, 1, 3), refundedShare(9e15, 999_999_999, 1_000_000_000)];
  assert.equal([...shares, refundedShare(5, 3, 3)], [3_333_333, 8_999_999_991_000_000, 5]);
});

test('credits of payments end on a Monday, and those for more than 366 days on the first of a month', () => {
  const monday = '2026-11-30T00:00:00Z';
  for (const [at, days, end] of [
    [monday, 6, '2026-12-07'],
    [monday, 7, '2026-12-14'],
    ['2026-12-06T23:59:59.999Z', 7, '2026-12-14'],
    [monday, 366, '2027-12-06'],
    [monday, 367, '2028-01-01'],
    [monday, 396, '2028-01-01'],
  ] as const)
    assert.is(new Date(endAfter(Date.parse(at), days)).toISOString().slice(0, 10), end, `${at} ${days}`);
});

test('a signature counts by any of its values and secrets, over the bytes as they came, for 5 minutes either way', () => {
  const [secret, other] = ['whsec_one', 'whsec_two'];
  const payload = '{"id": "evt_1",  "ü": 1}';
  const sign = (timestamp = NOW, by = secret, text = payload): string =>
    webhooks.generateTestHeaderString({ payload: text, secret: by, timestamp });
  const counts = (header: string | undefined, secrets = [secret], text = payload) => {
    const given = readStripeSignature(header, NOW_MS);
    return given !== undefined && isSignedByStripe(given, Buffer.from(text), secrets);
  };
  const [, ofOther] = sign(NOW, other).split(',');
  const right = [sign(), sign(NOW - 300), sign(NOW + 300), `${sign()},${ofOther}`, `v0=00,${ofOther},${sign()}`];
  assert.equal([...new Set(right.map((header) => counts(header)))], [true]);
  assert.ok(counts(sign(), [other, secret]) && counts(`${sign()},${ofOther}`, [other]));
  const wrong = [
    undefined,
    '',
    't=1,v1=zz',
    sign(NOW - 301),
    sign(NOW + 301),
    sign(NOW, other),
    sign().replace('v1=', 'v0='),
    sign().replace(/t=\d+/, `t=${NOW + 1}`),
    `t=${NOW},${sign()}`,
    `${sign()}0`,
  ];
  for (const header of wrong) assert.not.ok(counts(header), header);
  assert.not.ok(counts(sign(), []) || counts(sign(), [secret], payload.replace('  ', ' ')));
});
