import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../shared/values/ids.ts';
import { eventually } from '../../../tests/helpers/world.ts';
import { makeConsumerWorld, type ConsumerWorld } from '../helpers/consumer-world.ts';
import { removeExpired } from './expire.ts';

const never = new AbortController().signal;
let own: ConsumerWorld;
const test = suite('expire');
test.before(async () => {
  own = await makeConsumerWorld();
});
test.after(() => own?.stop());

test('expired rows are removed; applied changes are removed up to the first unapplied one, and the position is stored', async () => {
  const { sql, team } = own.world;
  const [token] = await sql<{ id: string }[]>`select id from access_tokens limit 1`;
  const { workspaceId } = await own.storeKeyAndBilling();
  for (const age of ['25 hours', '23 hours']) {
    await sql`insert into idempotency_keys (token_id, team_id, key_hash, request_hash, created_at)
              values (${token!.id}, ${team.id}, ${age}, '', now() - ${age}::interval)`;
  }
  for (const age of ['31 days', '29 days']) {
    await sql`insert into link_tokens (id, team_id, workspace_id, customer_id, hash, expires_at)
              values (${newId('link')}, ${team.id}, ${workspaceId}, 'c', ${age}, extract(epoch from now() - ${age}::interval) * 1000)`;
  }
  for (const lasts of ['-1 second', '1 hour']) {
    await sql`insert into sessions (id, team_id, token_id, hash, expires_at)
              values (${newId('sess')}, ${team.id}, ${token!.id}, ${lasts}, now() + ${lasts}::interval)`;
  }
  await sql`delete from changes`;
  const change = async (entity: string, applied: string | null) => {
    const [row] = await sql<{ tx: number }[]>`
      insert into changes (kind, entity_id, created_at, applied_at)
      values ('key', ${entity}, now() + interval '1 hour', now() - ${applied}::interval) returning tx::text::bigint as tx`;
    return row!.tx;
  };
  await change('old', '25 hours');
  const second = await change('old too', '25 hours');
  await change('new', '23 hours');
  const third = await change('old, below the one that waits', '25 hours');
  const waits = await change('waits', null);
  const last = await change('old, above the one that waits', '25 hours');
  assert.ok(second < third && waits < last);
  // An open transaction of another test on this server holds the removal back, as it must.
  const removeAll = () =>
    eventually('no older transaction is open', async () => {
      const [{ xmin }] = await sql<
        [{ xmin: number }]
      >`select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xmin`;
      await removeExpired(sql, never);
      return xmin > last;
    });

  await removeAll();
  assert.equal(
    (await sql`select key_hash from idempotency_keys`).map((row) => row.keyHash),
    ['23 hours'],
  );
  assert.equal(
    (await sql`select hash from link_tokens`).map((row) => row.hash),
    ['29 days'],
  );
  assert.equal(
    (await sql`select hash from sessions`).map((row) => row.hash),
    ['1 hour'],
  );
  const left = async () => (await sql`select entity_id from changes order by id`).map((row) => row.entityId);
  const pruned = async () => (await sql`select at from job_watermarks where job like 'changes_pruned %'`)[0]!.at;
  assert.equal(await left(), ['new', 'waits', 'old, above the one that waits']);
  assert.is(await pruned(), third);

  await sql`update changes set applied_at = now() where entity_id = 'waits'`;
  await removeAll();
  assert.equal(await left(), ['new', 'waits']);
  assert.is(await pruned(), last);
});

test('a revocation is removed once its JWT has expired, a signing key 30 days after its last JWT', async () => {
  const { sql, team } = own.world;
  for (const age of ['1 minute', '-1 minute']) {
    await sql`
      insert into revoked_jwts (team_id, jti, expires_at) values (${team.id}, gen_random_uuid(), now() - ${age}::interval)`;
  }
  const keys = { current: null, next: 'infinity', 'ended today': '-1 day', 'ended long ago': '-31 days' };
  for (const [kid, retired] of Object.entries(keys)) {
    const age = retired === 'infinity' ? null : retired;
    await sql`
      insert into signing_keys (kid, team_id, public_jwk, retired_at)
      values (${kid}, ${team.id}, '{}', ${retired === 'infinity' ? sql`'infinity'` : sql`now() + ${age}::interval`})`;
  }
  await removeExpired(sql, never);
  assert.is((await sql`select from revoked_jwts where expires_at > now()`).length, 1);
  assert.is((await sql`select from revoked_jwts`).length, 1);
  assert.equal(
    (await sql`select kid from signing_keys order by kid`).map((row) => row.kid),
    ['current', 'ended today', 'next'],
  );
});

test('an alert that was told is removed after 90 days', async () => {
  const { sql, team } = own.world;
  const { billingId } = await own.storeKeyAndBilling();
  for (const age of ['91 days', '89 days'])
    await sql`
      insert into alerts_told (id, team_id, billing_id, name, "when", event_id, at, used_micros, armed, created_at)
      values (${newId('alert')}, ${team.id}, ${billingId}, ${age}, '{}', '', 0, 0, '', now() - ${age}::interval)`;
  await removeExpired(sql, never);
  const left = await sql<{ name: string }[]>`select name from alerts_told`;
  assert.equal(
    left.map(({ name }) => name),
    ['89 days'],
  );
});

test('a secret is removed a day after its end, unless it works or a kept change may still name it', async () => {
  const { sql, team } = own.world;
  const { keyId } = await own.storeKeyAndBilling();
  await sql`delete from changes`;
  const store = (hash: string, replaced: string | null, validForHours: number | null) => sql`
    insert into key_texts (hash, team_id, key_id, replaced_at, valid_until)
    values (${hash}, ${team.id}, ${keyId}, now() - ${replaced}::interval,
            extract(epoch from now() + ${validForHours}::int * interval '1 hour') * 1000)`;
  await store('works', null, null);
  await store('ended', '26 hours', null);
  await store('its grace ended', '26 hours', -25);
  await store('its grace ended today', '26 hours', -23);
  await store('in grace', '26 hours', 1);
  await store('ended today', '23 hours', null);
  await store('ended before the oldest change', '30 hours', null);
  const left = async () =>
    (await sql<{ hash: string }[]>`select hash from key_texts where key_id = ${keyId}`).map((row) => row.hash);
  const keeps = ['works', 'its grace ended today', 'in grace', 'ended today'];
  await sql`insert into changes (kind, entity_id, created_at) values ('key', ${keyId}, now() - interval '28 hours')`;
  await removeExpired(sql, never);
  assert.equal((await left()).toSorted(), [...keeps, 'ended', 'its grace ended'].toSorted());
  await sql`delete from changes`;
  await removeExpired(sql, never);
  assert.equal((await left()).toSorted(), keeps.toSorted());
});

test('the keys of secrets that ended are locked in order, so two jobs at once never wait for each other', async () => {
  const { sql, team } = own.world;
  const keyIds = [(await own.storeKeyAndBilling()).keyId, (await own.storeKeyAndBilling()).keyId].toSorted();
  await sql`delete from changes`;
  for (const [i, keyId] of keyIds.entries())
    await sql`
      insert into key_texts (hash, team_id, key_id, replaced_at, valid_until)
      values (${`ended ${i}`}, ${team.id}, ${keyId}, now() - ${`${30 + i} hours`}::interval, 1)`;
  let removing: Promise<void> | undefined;
  await sql.begin(async (tx) => {
    await tx`select from api_keys where id = ${keyIds[0]!} for update`;
    removing = removeExpired(sql, never);
    await eventually('the job waits for the first key', async () => {
      const [row] = await sql`
        select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
      return row !== undefined;
    });
    await sql.begin((other) => other`select from api_keys where id = ${keyIds[1]!} for update nowait`);
  });
  await removing;
  assert.is((await sql`select from key_texts where hash like 'ended _'`).length, 0);
});

test('deliveries stay 30 days with their tries, those of a deleted webhook go at once, and an event outlives its deliveries', async () => {
  const { sql, team } = own.world;
  const newWebhook = async (deleted: string | null) => {
    const id = newId('hook');
    await sql`insert into webhooks (id, team_id, url, events, deleted_at)
              values (${id}, ${team.id}, '', '{}', now() - ${deleted}::interval)`;
    return id;
  };
  const deliver = async (webhookId: string, age: string, eventAge = age) => {
    const [event, delivery] = [newId('msg'), newId('dlv')];
    await sql`insert into webhook_events (id, team_id, type, subject_id, at, data, created_at)
              values (${event}, ${team.id}, 'key.created', '', 0, '{}', now() - ${eventAge}::interval)`;
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
  const ids = async (rows: PromiseLike<{ id: string }[]>) => (await rows).map(({ id }) => id).toSorted();
  assert.equal(await ids(sql`select id from webhook_deliveries`), [kept.delivery]);
  assert.equal(await ids(sql`select delivery_id as id from webhook_tries`), [kept.delivery]);
  assert.equal(await ids(sql`select id from webhook_events`), [kept.event, known.event, gone.event].toSorted());
  assert.equal(await ids(sql`select id from webhooks`), [live]);
});

test.run();
