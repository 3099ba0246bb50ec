import { randomUUID } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../shared/values/ids.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { column } from '../../../tests/helpers/columns.ts';
import { makeConsumerWorld, type ConsumerWorld } from '../helpers/consumer-world.ts';
import { removeExpired } from './expire.ts';

const never = new AbortController().signal;
const MINUTE_MS = 60_000;
type Fields = Record<string, string | number | Date>;
let own: ConsumerWorld;
test.before.each(async () => {
  own = await makeConsumerWorld();
  await own.sql`delete from changes`;
});

test('rows are removed once their time is over, and not before', async () => {
  const { sql, team } = own;
  const { workspaceId, billingId } = await own.storeKeyAndBilling();
  const ofLink = { workspaceId, customerId: 'c', createdBy: team.tokenId };
  const ofAlert = { billingId, when: '{}', eventId: '', at: 0, usedMicros: 0, armed: '' };
  // For how long rows are kept after an instant, the column with their name, and their other fields.
  const tables: [table: string, keptMs: number, name: string, fields: (at: Date) => Fields][] = [
    ['idempotencyKeys', DAY_MS, 'keyHash', (at) => ({ tokenId: team.tokenId, requestHash: '', createdAt: at })],
    ['linkTokens', 30 * DAY_MS, 'hash', (at) => ({ id: newId('link'), ...ofLink, expiresAt: at.getTime() })],
    ['sessions', 0, 'hash', (at) => ({ id: newId('sess'), tokenId: team.tokenId, expiresAt: at })],
    ['revokedJwts', 0, 'jti', (at) => ({ expiresAt: at })],
    ['alertsTold', 90 * DAY_MS, 'name', (at) => ({ id: newId('alert'), ...ofAlert, createdAt: at })],
    // It is in key sets for five minutes more.
    ['signingKeys', 30 * DAY_MS + 5 * MINUTE_MS, 'kid', (at) => ({ publicJwk: '{}', retiredAt: at })],
  ];
  for (const [table, keptMs, name, fields] of tables) {
    const [expired, stays] = [randomUUID(), randomUUID()];
    for (const [row, agoMs] of Object.entries({ [expired]: keptMs + MINUTE_MS, [stays]: keptMs - MINUTE_MS })) {
      const values = { teamId: team.id, ...fields(new Date(Date.now() - agoMs)), [name]: row };
      await sql`insert into ${sql(table)} ${sql(values)}`;
    }
    await removeExpired(sql, never);
    const left = await sql`select ${sql(name)}::text as name from ${sql(table)} where team_id = ${team.id}`;
    assert.equal(column(left, 'name'), [stays], table);
  }
  await sql`
    insert into signing_keys (kid, team_id, public_jwk, retired_at)
    values (${`current ${team.id}`}, ${team.id}, '{}', null), (${`next ${team.id}`}, ${team.id}, '{}', 'infinity')`;
  await removeExpired(sql, never);
  assert.is((await sql`select from signing_keys where team_id = ${team.id}`).count, 3);
});

test('applied changes are removed up to the first unapplied one, and the position is stored', async () => {
  const { sql } = own;
  // Transactions that everybody sees, and one that nobody can see yet.
  const change = (tx: number, entity: string, applied: string | null) => sql`
    insert into changes (kind, entity_id, created_at, applied_at, tx)
    values ('key', ${entity}, now() + interval '1 hour', now() - ${applied}::interval, ${String(tx)}::text::xid8)`;
  const above = 'old, above the one that waits';
  await change(11, 'old', '25 hours');
  await change(12, 'old too', '25 hours');
  await change(13, 'new', '23 hours');
  await change(14, 'old, below the one that waits', '25 hours');
  await change(15, 'waits', null);
  await change(16, above, '25 hours');
  await change(1e15, 'not seen by all', '25 hours');
  await change(10, 'old, and the newest', '25 hours');
  const pruned = async () =>
    (await sql<{ at: number }[]>`select at from job_watermarks where job like 'changes_pruned %'`)[0]!.at;
  const rows = async () => column(await sql`select entity_id as name from changes order by tx`, 'name');
  await removeExpired(sql, never);
  assert.equal(await rows(), ['old, and the newest', 'new', 'waits', above, 'not seen by all']);
  assert.is(await pruned(), 14);
  await sql`update changes set applied_at = now() where entity_id = 'waits'`;
  await removeExpired(sql, never);
  assert.equal(await rows(), ['old, and the newest', 'new', 'waits', 'not seen by all']);
  assert.is(await pruned(), 16);
});

test('a secret is removed a day after its end, unless it works or a kept change may still name it', async () => {
  const { sql, team } = own;
  const { keyId } = await own.storeKeyAndBilling();
  const store = (name: string, replaced: string | null, validForHours: number | null) => sql`
    insert into key_texts (hash, team_id, key_id, replaced_at, valid_until)
    values (${`${name} ${keyId}`}, ${team.id}, ${keyId}, now() - ${replaced}::interval,
            extract(epoch from now() + ${validForHours}::int * interval '1 hour') * 1000)`;
  await store('works', null, null);
  await store('ended', '26 hours', null);
  await store('its grace ended', '26 hours', -25);
  await store('its grace ended today', '26 hours', -23);
  await store('in grace', '26 hours', 1);
  await store('ended today', '23 hours', null);
  await store('ended before the oldest change', '30 hours', null);
  const left = async () => {
    const hashes = column(await sql`select hash from key_texts where key_id = ${keyId}`, 'hash') as string[];
    return hashes.map((hash) => hash.replace(` ${keyId}`, '')).toSorted();
  };
  const keeps = ['works', 'its grace ended today', 'in grace', 'ended today'];
  await sql`insert into changes (kind, entity_id, created_at) values ('key', ${keyId}, now() - interval '28 hours')`;
  await removeExpired(sql, never);
  assert.equal(await left(), [...keeps, 'ended', 'its grace ended'].toSorted());
  await sql`delete from changes`;
  await removeExpired(sql, never);
  assert.equal(await left(), keeps.toSorted());
});

test('events for external meters are removed after 93 days unless they wait or failed, and all of a deleted destination at once', async () => {
  const { sql, team } = own;
  const { workspaceId, billingId } = await own.storeKeyAndBilling();
  const ofTeam = { teamId: team.id, billingId };
  const store = async (deletedAt: Date | null, agoMs: number) => {
    const destinationId = newId('dest');
    const texts = { kind: 'http', name: '', url: '', eventNames: '{}', measure: 'credits' };
    const settings = { ...texts, unitMicros: 1, batchSize: 1 };
    const startsAt = '2026-01-01T00:00:00Z';
    await sql`insert into meter_destinations ${sql({ id: destinationId, teamId: team.id, workspaceId, ...settings, startsAt, deletedAt })}`;
    for (const [number, state] of ['WAITING', 'SENT', 'FAILED', 'CARRIED', 'LEFT_OUT'].entries()) {
      const zero = { micros: 0, events: 0, quantity: 0, externalId: '', eventName: '', usageName: '' };
      const event = { id: newId('mev'), destinationId, ...ofTeam, ...zero, hour: startsAt, number, state };
      await sql`insert into meter_events ${sql({ ...event, createdAt: new Date(Date.now() - agoMs) })}`;
    }
    await sql`insert into meter_days ${sql({ destinationId, ...ofTeam, day: '2026-01-01' })}`;
    await sql`insert into meter_rests ${sql({ destinationId, ...ofTeam, usageName: '', micros: 1 })}`;
    return destinationId;
  };
  const [young, old, deleted] = [
    await store(null, 93 * DAY_MS - MINUTE_MS),
    await store(null, 93 * DAY_MS + MINUTE_MS),
    await store(new Date(), 0),
  ];
  await removeExpired(sql, never);
  const left = async (id: string) => {
    const tables = ['meter_events', 'meter_days', 'meter_rests', 'meter_sums'];
    const rows = tables.map((table) => sql`select from ${sql(table)} where destination_id = ${id}`);
    return (await Promise.all(rows)).map(({ length }) => length).join(' ');
  };
  assert.equal(await Promise.all([young, old, deleted].map(left)), ['5 1 1 5', '2 1 1 5', '0 0 0 5']);
});

test('deliveries stay 30 days with their tries, those of a deleted webhook go at once, and an event outlives its deliveries', async () => {
  const { sql, team } = own;
  const newWebhook = async (deleted: string | null) => {
    const id = newId('hook');
    await sql`insert into webhooks (id, team_id, url, events, deleted_at)
              values (${id}, ${team.id}, '', '{}', now() - ${deleted}::interval)`;
    return id;
  };
  const deliver = async (webhookId: string, age: string, eventAge = age) => {
    const [event, delivery] = [newId('msg'), newId('dlv')];
    await sql`insert into webhook_events (id, team_id, type, subject_id, at, data, created_at)
              values (${event}, ${team.id}, 'webhook.test', '', 0, '{"message": ""}', now() - ${eventAge}::interval)`;
    await sql`insert into webhook_deliveries (id, team_id, webhook_id, event_id, sequence, created_at)
              values (${delivery}, ${team.id}, ${webhookId}, ${event}, 1, now() - ${age}::interval)`;
    await sql`insert into webhook_tries (delivery_id, number, team_id, at, duration_ms) values (${delivery}, 1, ${team.id}, now(), 1)`;
    return { event, delivery };
  };
  const [live, deleted] = [await newWebhook(null), await newWebhook('2 hours')];
  const kept = await deliver(live, '29 days', '40 days');
  const known = await deliver(live, '30 days 1 hour');
  await deliver(live, '32 days');
  const gone = await deliver(deleted, '1 hour');
  await removeExpired(sql, never);
  const ids = async (table: string, name = 'id') =>
    column(await sql`select ${sql(name)} as id from ${sql(table)} where team_id = ${team.id} order by 1`, 'id');
  assert.equal(await ids('webhook_deliveries'), [kept.delivery]);
  assert.equal(await ids('webhook_tries', 'delivery_id'), [kept.delivery]);
  assert.equal(await ids('webhook_events'), [kept.event, known.event, gone.event].toSorted());
  assert.equal(await ids('webhooks'), [live]);
});
