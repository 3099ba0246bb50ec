import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Sql } from 'postgres';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../shared/contract/errors.ts';
import postgres from '../../shared/stores/postgres-driver.ts';
import { metric } from '../helpers/metric.ts';
import { type Customers, eventually, makeCustomers, makeWorld, must, once, type World } from '../helpers/world.ts';

// Postgres is restored from an older backup while Redis and the books have gone on: nothing is skipped silently, and
// everything that changed since is settled on the safe side.

let world: World;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  ({ id: workspaceId } = await made('/api/v1/workspace', { name: 'restored' }, 'workspace'));
  customers = makeCustomers(world, workspaceId);
});

test('the api refuses changes until an operator has decided; then all that changed or ended since is refused, and all else goes on', async () => {
  const [untouched, capped, disabled, rotated] = [
    await customers.meteredKey('10'),
    await customers.meteredKey('10'),
    await customers.newKey(),
    await customers.newKey(),
  ];
  const { id: gone } = await made('/api/v1/workspace', { name: 'gone' }, 'workspace');
  const inGone = await makeCustomers(world, gone).newKey();
  const gateway = await made('/api/v1/access-token', { name: 'g', permissions: ['key:verify'] }, 'accessToken');
  const link = await made('/api/v1/link-token', { workspaceId, customerId: 'c' }, 'linkToken');
  const sending = { workspaceId, kind: 'openmeter', name: 'm' };
  const meter = await made('/api/v1/meter-destination', sending, 'destination');
  const jwts = [await newJwt(), await newJwt()];
  const other = await world.newTeam();
  const ofOther = await newJwt(other.token);
  await customers.spend(untouched, '1');
  await inForce();
  await backUp();

  const path = `/api/v1/workspace/${workspaceId}/api-key`;
  await must(200, world.call('patch', `${path}/${disabled.id}`, { enabled: false }));
  const fresh = (await must(200, world.call('post', `${path}/${rotated.id}/rotate`))).body.apiKey.key as string;
  await must(200, world.call('delete', `/api/v1/access-token/${gateway.id}`));
  await must(200, world.call('delete', `/api/v1/workspace/${gone}`));
  await must(200, world.call('post', '/api/v1/jwt/revoke', { jwt: jwts[0] }));
  await must(200, world.call('delete', `/api/v1/link-token/${link.token}`));
  const later = await customers.newKey();
  const { id: billingId } = await customers.billing(untouched.meter);
  await adjust(billingId, '0.5');
  const { id: cappedId } = await customers.billing(capped.meter);
  await must(200, world.call('patch', `/api/v1/customer-billing/${cappedId}`, { spendCap: '2' }));
  const refill = { workspaceId, externalMeterId: untouched.meter, refill: 5 };
  await must(200, world.call('post', '/api/v1/customer-billing/refill', refill));
  await customers.spend(untouched, '2');
  await world.booked();
  await inForce();
  await restore();
  // As if the first usage of the day had been booked after the backup. The consumer knows that it has marked the day.
  await world.sql`delete from usage_marks`;

  // Redis has newer settings, which stay in force; older ones change nothing.
  const refused = await eventually('a change is refused', async () => {
    const answer = await world.call('patch', `${path}/${untouched.id}`, { name: 'changed' });
    return answer.body.error?.code === errors.postgres_stale[0] ? answer : undefined;
  });
  assert.is(refused.status, 503);
  await eventually('readyz reports it', async () => (await fetch(`${world.api.url}/readyz`)).status === 503);
  await eventually('a metric reports it', async () => (await metric(world.api.url, 'keytally_settings_older')) === 1);
  const statuses = () => Promise.all([disabled.key, rotated.key, fresh, later.key, untouched.key].map(status));
  assert.equal(await statuses(), ['DISABLED', 'INVALID', 'VALID', 'VALID', 'VALID']);

  const asApi = new URL(process.env.TEST_API_POSTGRES_URL!);
  asApi.pathname = new URL(world.env.DATABASE_URL!).pathname;
  const wrong = await runRestored(asApi.href).catch((error: { stderr: string }) => error.stderr);
  assert.match(wrong, /^restored: it needs the rights of the schemas' owner: name that user in DATABASE_URL$/m);
  const stdout = await runRestored();
  for (const id of [disabled.id, rotated.id, gone, gateway.id, billingId, cappedId, meter.id]) assert.match(stdout, id);
  const { destination } = (await must(200, world.call('get', `/api/v1/meter-destination/${meter.id}`))).body;
  assert.is(destination.enabled, false);
  assert.match(stdout, new RegExp(`^ended: 2 signing keys and 1 link tokens of ${world.team.id}$`, 'm'));
  assert.match(stdout, new RegExp(`^ended: 2 signing keys and 0 link tokens of ${other.id}$`, 'm'));
  await eventually('it is ready again', async () => (await fetch(`${world.api.url}/readyz`)).ok);
  // The texts of the backup are known again, and refused; Postgres knows no later ones.
  assert.equal(await statuses(), ['DISABLED', 'DISABLED', 'INVALID', 'INVALID', 'VALID']);
  assert.is(await status(inGone.key), 'INVALID');
  assert.is((await world.call('get', `/api/v1/workspace/${gone}`)).status, 403);
  assert.is((await customers.verify({ key: untouched.key }, { token: gateway.token })).status, 401);
  const ended = await Promise.all([...jwts.map((jwt) => jwtStatus(jwt)), jwtStatus(ofOther, other.token)]);
  assert.equal(ended, ['INVALID', 'INVALID', 'INVALID']);
  assert.is((await must(200, world.call('get', `/api/v1/link-token/${link.token}`))).body.valid, false);
  const lines = await world.sql<{ resource: string }[]>`
    select resource from audit_log where operation = 'npm run restored' and team_id = ${world.team.id}`;
  const told = new Set(lines.map(({ resource }) => resource));
  assert.equal(told, new Set(['access_token', 'api_key', 'billing', 'link_token', 'signing_key', 'workspace']));

  const { billing } = (await must(200, world.call('get', `/api/v1/customer-billing/${cappedId}`))).body;
  assert.is(billing.spendCap, '2', 'what was lowered stays low');

  // Balances come from the books, and all goes on.
  const used = async () => (await customers.billing(untouched.meter)).usedCredits;
  await eventually('the balance is that of the books', async () => (await used()) === '3.5');
  await adjust(billingId, '1');
  assert.is(await used(), '4.5', 'its number follows those in the books');
  await must(200, world.call('patch', `${path}/${disabled.id}`, { enabled: true }));
  assert.is(await status(disabled.key), 'VALID');
  assert.is(await jwtStatus(await newJwt()), 'VALID');
  const found = await eventually('all is booked', async () => {
    const { body } = await world.call('get', `/api/v1/customer-billing/${billingId}/reconciliation`);
    return body.reconciliation?.status === 'EXACT' ? body.reconciliation : undefined;
  });
  assert.equal([found.usedCredits, found.difference], ['4.5', '0']);
  await eventually('the chain of the audit log goes on', async () => {
    const [waiting] = await world.sql`select from audit_unchained`;
    return !waiting && (await metric(world.api.url, 'keytally_audit_log_broken')) === 0;
  });
});

async function made(path: string, body: object, field: string) {
  return (await must(201, world.call('post', path, body))).body[field] as { id: string; token: string };
}

async function inForce(): Promise<void> {
  await eventually('changes are in force', async () => {
    const [waiting] = await world.sql`select from changes where applied_at is null`;
    return !waiting;
  });
}

async function adjust(billingId: string, amount: string): Promise<void> {
  const path = `/api/v1/customer-billing/${billingId}/adjustment`;
  await must(201, world.call('post', path, { amount, reason: 'a test' }, { headers: once() }));
}

async function status(key: string): Promise<string> {
  return (await must(200, customers.verify({ key }, { headers: once() }))).body.status;
}

async function newJwt(token = world.team.token): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/jwt', { payload: {} }, { token }))).body.jwt as string;
}

async function jwtStatus(jwt: string, token = world.team.token): Promise<string | undefined> {
  return (await world.call('post', '/api/v1/jwt/verify', { jwt }, { token })).body?.status as string | undefined;
}

async function backUp(): Promise<void> {
  await onServer(async (server, name) => {
    await disconnect(server, name);
    await server`create database ${server(`${name}_backup`)} template ${server(name)}`;
    await server`alter database ${server(name)} with allow_connections true`;
  });
}

async function restore(): Promise<void> {
  await onServer(async (server, name) => {
    await server`drop database ${server(name)} with (force)`;
    await server`create database ${server(name)} template ${server(`${name}_backup`)}`;
    await server`drop database ${server(`${name}_backup`)}`;
  });
}

/** Runs the command that decides what was changed since, as the schemas' owner if no other user is named; gives what it printed. */
async function runRestored(databaseUrl = world.env.DATABASE_URL): Promise<string> {
  const command = join(import.meta.dirname, '../../apps/api/commands/restored.ts');
  const env = { ...process.env, ...world.env, DATABASE_URL: databaseUrl };
  return (await promisify(execFile)(process.execPath, [command], { env })).stdout;
}

async function onServer(work: (server: Sql, name: string) => Promise<void>): Promise<void> {
  const url = new URL(world.env.DATABASE_URL!);
  const name = url.pathname.slice(1);
  url.pathname = '/postgres';
  const server = postgres(url.href, { max: 1, onnotice: () => {} });
  await work(server, name);
  await server.end();
}

// Postgres copies a database only without connections to it, and our programs reconnect at once unless they may not.
async function disconnect(server: Sql, name: string): Promise<void> {
  await server`alter database ${server(name)} with allow_connections false`;
  await server`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
  await eventually('nobody is connected', async () => {
    const rows = await server`select from pg_stat_activity where datname = ${name}`;
    return rows.length === 0;
  });
}
