import { createRequire } from 'node:module';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../../shared/values/ids.ts';
import { passTime, repeatEnded } from '../../../../tests/helpers/pass-time.ts';
import { request } from '../../../../tests/helpers/request.ts';
import { callsOf, codesOf, column, columns, joinWorld, must, refused } from '../../tests/helpers/calls.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

// What payments become, by the api's answers. What events say, and rules make: resources/payments. In any order, and told again: the
// simulator.

const Stripe = createRequire(import.meta.url)('stripe');
const { webhooks } = new Stripe('sk_test_none');
const PATH = '/api/v1/payment-source';
const SECRET = 'whsec_first';
const RULE = { event: 'payment_intent.succeeded', currency: 'usd', creditsPerUnit: '0.01' };
const world = await joinWorld();
const by = callsOf(world);
const records = await makeRecords(world);
const { workspaceId } = records;

const newSource = (more: object = {}) =>
  by.make(PATH, { workspaceId, kind: 'stripe', name: 'Stripe', rules: [RULE], secret: SECRET, ...more });

function send({ id }: { id: string }, type: string, object: object, { secret = SECRET, more = {} } = {}) {
  const created = Math.floor(Date.now() / 1_000);
  const payload = JSON.stringify({ id: newId('evt'), type, created, data: { object } });
  const signature: string = webhooks.generateTestHeaderString({ payload, secret });
  const headers = { 'Stripe-Signature': signature, ...more };
  return request(`${world.api.url}${PATH}/${id}/events`, 'post', { token: null, raw: payload, headers });
}

let number = 0;
const newIntent = (customer: string, more: object = {}) => ({
  id: `pi_${(number += 1)}_${newId('pay')}`,
  amount_received: 1_000,
  currency: 'usd',
  customer,
  ...more,
});
type Intent = ReturnType<typeof newIntent>;
const pay = (source: { id: string }, intent: Intent) => send(source, 'payment_intent.succeeded', intent);
const refund = (source: { id: string }, { id }: Intent, amount: number) =>
  send(source, 'charge.refunded', { id: `ch_${id}`, payment_intent: id, amount_refunded: amount });
const settled = async (answer: ReturnType<typeof send>) => (await must(200, answer)).body;
const available = async (id: string) => ((await records.billing(id)) as { availableCredits: string }).availableCredits;

test('a payment becomes a grant once, however often and by how many at once it is told, also by a source that was made again', async () => {
  const { id, meter } = await records.record();
  const rules = [{ ...RULE, expiresAfterDays: 30, priority: 10, name: 'bought' }];
  const source = await newSource({ rules });
  const intent = newIntent(meter);
  const answers = await Promise.all([1, 2, 3].map(() => settled(pay(source, intent))));
  const [{ payment }] = answers;
  assert.equal(new Set(answers.map((one) => one.payment.grantId)).size, 1);
  const { id: paymentId, grantId, ...told } = payment;
  assert.equal(columns([told], 'state', 'objectId', 'credits', 'voidedCredits', 'billingId'), [
    ['GRANTED', intent.id, '10', '0', id],
  ]);
  const [grant] = await records.grants(id);
  assert.equal(columns([grant], 'id', 'credits', 'priority', 'name', 'metadata'), [
    [grantId, '10', 10, 'bought', { paymentId, objectId: intent.id }],
  ]);
  const days = (grant!.expiresAt - grant!.beginsAt) / 86_400_000;
  assert.ok(days > 30 && days <= 38 && new Date(grant!.expiresAt).getUTCDay() === 1);
  await by.remove(`${PATH}/${source.id}`);
  await refused(40480, pay(source, intent));
  const again = await newSource();
  assert.is((await settled(pay(again, intent))).payment.grantId, grantId);
  assert.is(await available(id), '10');
});

test('what is signed wrongly, too large, or of no source is refused, and what says nothing of payments is a 200', async () => {
  const { meter } = await records.record();
  const source = await newSource();
  const intent = newIntent(meter);
  const paid = 'payment_intent.succeeded';
  await refused(40070, send(source, paid, intent, { secret: 'whsec_other' }));
  await refused(40070, send(source, paid, intent, { more: { 'Stripe-Signature': 't=1,v1=00' } }));
  await refused(40480, send({ id: newId('psrc') }, paid, intent));
  await refused(40480, send({ id: 'none' }, paid, intent));
  await refused(41301, send(source, paid, { ...intent, text: 'x'.repeat(300_000) }));
  const without = await newSource({ secret: undefined });
  await refused(40070, pay(without, intent));
  assert.is((await settled(send(source, 'payment_intent.payment_failed', intent))).done, 'IGNORED');
  const session = { id: 'cs_1', payment_status: 'paid', amount_total: 5, currency: 'usd' };
  const { reason } = await settled(send(source, 'checkout.session.completed', session));
  assert.is(reason, 'no rule of the source is for this event');
  assert.equal(await by.read(`${PATH}/${source.id}/payments`), []);
});

test('a new secret leaves the one before, unless that is to end', async () => {
  const source = await newSource();
  const path = `${PATH}/${source.id}`;
  const trying = (secret: string) => send(source, 'charge.failed', {}, { secret });
  const tried = async () => codesOf(await Promise.all([SECRET, 'whsec_second', 'whsec_third'].map(trying)));
  const row = () => world.sql`select version, sealed_under from payment_sources where id = ${source.id}`;
  const versions = async () => columns(await row(), 'version', 'sealedUnder');
  const { hasSecret, previousSecretUntil } = await by.change(path, { secret: 'whsec_second' });
  assert.ok(hasSecret && Date.parse(previousSecretUntil) > Date.now());
  assert.equal(await tried(), [200, 200, 40070]);
  await world.sql`update payment_sources set previous_until = now() where id = ${source.id}`;
  assert.equal(await tried(), [200, 40070, 40070]);
  await world.sql`update payment_sources set sealed_under = 'an earlier key' where id = ${source.id}`;
  const same = await by.change(path, { secret: 'whsec_second' });
  assert.equal([same.previousSecretUntil, await versions()], [undefined, [[2, 'an earlier key']]]);
  await by.change(path, { secret: 'whsec_third', endPrevious: true });
  assert.is((await versions())[0]![0], 3);
  assert.equal(await tried(), [200, 40070, 40070]);
  const log = JSON.stringify(await world.sql`select * from audit_log where resource_id = ${source.id}`);
  assert.not.match(log, /whsec/);
});

test('a refund voids what is left of its payment, up to its share and no more, once for each amount that was given back', async () => {
  const { id, meter, key } = await records.record();
  const source = await newSource();
  const intent = newIntent(meter);
  await records.granted(id, { credits: '5', priority: 90 });
  await world.sql`insert into team_quotas (team_id, limits) values (${world.team.id}, '{"stored_bytes": 1}')`;
  const { grantId } = (await settled(pay(source, intent))).payment;
  await records.spend(key, '2');
  for (const amount of [300, 300, 100]) await settled(refund(source, intent, amount));
  assert.equal(await records.numbers(id), ['ACTIVE 0 0 5', 'ACTIVE 2 0 5', 'VOIDED 0 3 0']);
  await settled(refund(source, intent, 500));
  assert.equal((await records.numbers(id))[1], 'ACTIVE 2 0 3');
  assert.is((await records.get(`${records.path(id)}/grant/${grantId}`)).grant.credits, '5');
  const { payment } = await settled(refund(source, intent, 1_000));
  assert.equal([payment.refunded, payment.voidedCredits], [1_000, '10']);
  assert.equal((await records.amounts(id)).slice(0, 3), ['15', '2', '5']);
  assert.is((await records.proof(id)).status, 'EXACT');
  await world.sql`delete from team_quotas where team_id = ${world.team.id}`;
});

test('a refund waits while 200 grants of the record ended within a day, and is done when it is told or applied after', async () => {
  const source = await newSource();
  for (const again of ['told', 'applied']) {
    const { id, meter } = await records.record();
    await records.voided(id, await records.granted(id, { credits: '1' }));
    await repeatEnded(world, world.redis, id, 199);
    const intent = newIntent(meter);
    await settled(pay(source, intent));
    const { payment } = await settled(refund(source, intent, 400));
    assert.equal([payment.state, payment.voidedCredits, await available(id)], ['REFUND_WAITS', '0', '10'], again);
    await passTime(world, world.redis, id, 25 * 3_600_000);
    const told = again === 'told' && (await settled(refund(source, intent, 400))).payment;
    const done = told || (await by.post(`${PATH}/${source.id}/payment/${payment.id}/apply`));
    assert.equal([done.state, done.voidedCredits, await available(id)], ['GRANTED', '4', '6'], again);
  }
});

test('what can not be granted is listed with its reason, and applied once that is put right', async () => {
  const source = await newSource();
  const meter = `later-${newId('bill')}`;
  const intent = newIntent(meter);
  const listed = async (one: Intent) => (await settled(pay(source, one))).payment.state;
  assert.is(await listed(intent), 'CUSTOMER_UNKNOWN');
  assert.is(await listed(newIntent(meter, { currency: 'eur' })), 'OTHER_CURRENCY');
  assert.is(await listed(newIntent(meter, { amount_received: Number.MAX_SAFE_INTEGER })), 'TOO_MANY_CREDITS');
  for (const amount of [250, 100]) await settled(refund(source, intent, amount));
  await by.remove(`${PATH}/${source.id}`);
  const path = `${PATH}/${source.id}`;
  const [waiting] = await by.read(`${path}/payments?state=CUSTOMER_UNKNOWN`);
  await by.make('/api/v1/customer-billing', { workspaceId, externalMeterId: meter });
  for (let twice = 0; twice < 2; twice++) {
    const { state, credits, voidedCredits } = await by.post(`${path}/payment/${waiting.id}/apply`);
    assert.equal([state, credits, voidedCredits], ['GRANTED', '10', '2.5']);
  }
  const record = await by.read(`/api/v1/customer-billing?workspaceId=${workspaceId}&externalMeterId=${meter}`);
  assert.is(record.availableCredits, '7.5');
  assert.equal(column(await by.read(`${path}/payments`), 'state'), ['GRANTED', 'OTHER_CURRENCY', 'TOO_MANY_CREDITS']);

  // As if it had 70 ends and priorities of credits: settings for Redis have no more.
  const full = await records.record();
  await records.granted(full.id, { credits: '1', priority: 1 });
  await world.sql`
    insert into grant_classes
    select (jsonb_populate_record(c, jsonb_build_object('ref', c.ref || i, 'number', 1000 + i, 'ends_at', 8000000000000 + i))).*
    from grant_classes c, generate_series(1, 69) i where c.billing_id = ${full.id}`;
  const [before, other] = [await available(full.id), await newSource({ rules: [{ ...RULE, priority: 2 }] })];
  assert.is((await settled(pay(other, newIntent(full.meter)))).payment.state, 'TOO_MANY_CREDITS');
  assert.is(await available(full.id), before);
});

test('a record is found by a field of the metadata, and by the customer that a meter destination knows', async () => {
  const destination = await by.make('/api/v1/meter-destination', { workspaceId, kind: 'openmeter', name: 'm' });
  const source = await newSource({ metadataField: 'meter', destinationId: destination.id });
  const [named, known] = [await records.record(), await records.record()];
  await by.change(records.path(known.id), { externalIds: { [destination.id]: 'cus_known' } });
  const recordOf = async (one: Intent) => (await settled(pay(source, one))).payment.billingId;
  assert.is(await recordOf(newIntent('cus_known')), known.id);
  assert.is(await recordOf(newIntent('cus_known', { metadata: { meter: named.meter } })), named.id);
  await by.change(records.path(named.id), { externalIds: { [destination.id]: 'cus_known' } });
  assert.is((await settled(pay(source, newIntent('cus_known')))).payment.state, 'CUSTOMER_AMBIGUOUS');
});

test('a crossing is paid once, for its record, until its payment was given back whole', async () => {
  const { id } = await records.record();
  const source = await newSource();
  const topUp = newId('alert');
  await world.sql`
    insert into alerts_told (id, team_id, billing_id, name, "when", event_id, at, used_micros, armed)
    values (${topUp}, ${world.team.id}, ${id}, 'low', '{"available": "1"}', 'evt', 0, 0, 'x')`;
  const [first, second] = [0, 1].map(() => newIntent('nobody', { metadata: { keytally_top_up: topUp } }));
  assert.is((await settled(pay(source, first!))).payment.billingId, id);
  const { payment } = await settled(pay(source, second!));
  assert.equal([payment.state, await available(id)], ['TOP_UP_PAID', '10']);
  await settled(refund(source, first!, 1_000));
  const applied = await by.post(`${PATH}/${source.id}/payment/${payment.id}/apply`);
  assert.equal([applied.state, await available(id)], ['GRANTED', '10']);
});

test('a payment of an invoice and the refund of its payment intent meet by what links them, whichever comes first', async () => {
  const ofInvoices = await makeRecords(world);
  const byInvoice = [{ ...RULE, event: 'invoice.paid' }];
  let source = await newSource({ workspaceId: ofInvoices.workspaceId, rules: byInvoice });
  const events = (meter: string, n: string) =>
    [
      ['invoice.paid', { id: `in_${n}`, amount_paid: 1_000, currency: 'usd', customer: meter }],
      ['charge.refunded', { id: `ch_${n}`, payment_intent: `pi_${n}`, amount_refunded: 400 }],
      ['invoice_payment.paid', { invoice: `in_${n}`, payment: { payment_intent: `pi_${n}` } }],
    ] as const;
  for (const order of ['012', '021', '102', '120', '201', '210']) {
    const { id, meter } = await ofInvoices.record();
    const all = events(meter, newId('pay'));
    for (const place of order.split('').map(Number)) await settled(send(source, all[place]![0], all[place]![1]));
    assert.is(await available(id), '6', order);
  }
  // Told as two payments, by sources that were not there together.
  const { id, meter } = await ofInvoices.record();
  const all = events(meter, newId('pay'));
  const { workspaceId } = ofInvoices;
  await by.change(`${PATH}/${source.id}`, { rules: [RULE] });
  await refused(40001, by.ask('post', PATH, { workspaceId, kind: 'stripe', name: 'n', rules: byInvoice }));
  const intent = { ...newIntent(meter), id: all[1][1].payment_intent };
  const first = (await settled(pay(source, intent))).payment;
  const path = `${PATH}/${source.id}`;
  await by.remove(path);
  source = await newSource({ workspaceId, rules: byInvoice });
  const second = (await settled(send(source, all[0][0], all[0][1]))).payment;
  assert.is(await available(id), '20');
  for (const event of [all[2], all[1]])
    assert.is((await settled(send(source, event[0], event[1]))).payment.id, first.id);
  const applied = await by.post(`${PATH}/${source.id}/payment/${second.id}/apply`);
  assert.equal([applied.voidedCredits, await available(id)], ['10', '6']);
  assert.equal(columns((await by.read(`${path}/payments`)).slice(-1), 'id', 'voidedCredits'), [[first.id, '4']]);
});

test('wrong rules and destinations are refused, and a workspace has at most ten sources', async () => {
  const other = await by.make('/api/v1/workspace', { name: 'w' });
  const create = (more: object) =>
    by.ask('post', PATH, { workspaceId: other.id, kind: 'stripe', name: 'n', rules: [RULE], ...more });
  const { event, currency } = RULE;
  for (const rule of [
    { event, currency },
    { event, currency, price: 'a' },
    { event, currency, credits: '1' },
    { ...RULE, price: 'a', credits: '1' },
    { ...RULE, creditsPerUnit: '0' },
    { ...RULE, currency: 'USD' },
  ])
    await refused(40001, create({ rules: [rule] }), JSON.stringify(rule));
  await refused(40001, create({ rules: [RULE, { ...RULE, event: 'invoice.paid' }] }));
  await refused(40001, create({ secret: 'sk_live_1' }));
  await refused(40470, create({ destinationId: newId('dest') }));
  for (let n = 0; n < 10; n++) await must(201, create({}));
  await refused(40981, create({}));
});
