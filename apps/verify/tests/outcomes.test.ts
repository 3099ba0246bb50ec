import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_BATCH_PATH } from '../../../shared/verification/operation.ts';
import { metric } from '../../../tests/helpers/metric.ts';
import { request, type Started, joinWorkspace, columns, makeCustomers, must } from '../../../tests/helpers/world.ts';

// How refusals come into the books. Programs of this file alone are asked: one that stops tells all that it has counted.

type Row = Record<'team_id' | 'workspace_id' | 'minute' | 'status' | 'reason' | 'limited_by' | 'key_id', string> & {
  would_refuse: boolean;
  calls: string;
};

const { world, workspaceId, customers } = await joinWorkspace();

const limitOf = (more: object) => ({ name: 'hourly', unit: 'requests', limit: 1, per: 'hour', ...more });

test('a refusal is counted by its status, reason and key, whichever way it came, and is a metric', async () => {
  const { id, key } = await customers.newKey({ enabled: false });
  const body = { key, route: 'GET /a' };
  const api = await world.start('api');
  const rows = await rowsAfter(async ({ url }) => {
    await customers.verify(body, { url });
    await customers.verify(body, { url: api.url });
    await world.call('post', url + VERIFY_BATCH_PATH, { verifications: [body, body, body] });
    const original = { 'x-original-uri': '/a', 'x-original-method': 'GET' };
    const headers = { 'x-keytally-token': world.team.token, 'x-api-key': key, ...original };
    await request(`${url}/gateway/nginx/-/`, 'get', { token: null, headers });
    await api.stop();
  });
  const ofKey = rows.filter((row) => row.key_id === id);
  const calls = ofKey.reduce((sum, one) => sum + Number(one.calls), 0);
  assert.is(calls, 6);
  for (const { team_id, workspace_id, status, reason, limited_by, would_refuse } of ofKey) {
    assert.equal([team_id, workspace_id], [world.team.id, workspaceId]);
    assert.equal([status, reason, limited_by, would_refuse], ['DISABLED', 'DISABLED', '', false]);
  }
});

test('a refusal by a limit names the limit, one that only watches too, once for a repeated key; a VALID call leaves no count', async () => {
  const limited = await customers.newKey({ limits: [limitOf({})] });
  const watched = await customers.newKey({ limits: [limitOf({ shadow: true })] });
  const rows = await rowsAfter(async ({ url }) => {
    for (const once of ['a', 'b', 'b', 'c']) {
      const options = { url, headers: { 'Idempotency-Key': once } };
      assert.is((await customers.verify({ key: watched.key }, options)).body.status, 'VALID');
    }
    for (let i = 0; i < 13; i++) await customers.verify({ key: limited.key, route: 'GET /a' }, { url });
    assert.ok((await metric(url, 'keytally_verifications_total')) > 0);
  });
  const told = ['status', 'reason', 'limited_by', 'would_refuse', 'calls'];
  const counted = ({ id }: { id: string }) => columns(inAll(rows.filter((row) => row.key_id === id)), ...told);
  assert.equal(counted(limited), [['RATE_LIMITED', 'RATE_LIMIT', 'key/hourly', false, '12']]);
  assert.equal(counted(watched), [['VALID', '', 'key/hourly', true, '2']]);

  const query = 'select * from recent_refusals final where key_id = {id:String} order by time';
  const recent = await read<Record<string, string>>(query, { id: limited.id });
  assert.ok(recent.length >= 10);
  const [{ workspace_id, reason, route, limited_by = '' } = {}] = recent;
  assert.equal([workspace_id, reason, route], [workspaceId, 'RATE_LIMIT', 'GET /a']);
  assert.equal(JSON.parse(limited_by), { on: 'key', name: 'hourly', limit: 1 });
});

test("a refusal keeps the end client's address that the call or a trusted gateway names, for a day, in no other table, where the workspace keeps them", async () => {
  const named = '203.0.113.9';
  const forwarded = '2001:db8::7';
  const { body } = await must(201, world.call('post', '/api/v1/workspace', { name: 'w', keepClientAddresses: false }));
  assert.is(body.workspace.keepClientAddresses, false);
  const [kept, other] = [customers, makeCustomers(world, body.workspace.id)];
  const [ofKept, ofOther] = [await kept.newKey({ enabled: false }), await other.newKey({ enabled: false })];
  const throughGateway = async (url: string, key: string) => {
    const headers = { 'x-keytally-token': world.team.token, 'x-api-key': key, 'x-real-ip': forwarded };
    await request(`${url}/gateway/nginx/-/`, 'get', { token: null, headers });
  };
  const askAll = async ({ url }: Started) => {
    for (const { key } of [ofKept, ofOther]) {
      await kept.verify({ key, ip: named }, { url });
      await kept.verify({ key }, { url });
      await throughGateway(url, key);
    }
  };
  await rowsAfter(askAll, { TRUSTED_PROXIES: '127.0.0.1' });
  // Of a gateway that is not trusted, the peer is the gateway itself.
  await rowsAfter(({ url }) => throughGateway(url, ofKept.key));
  const told = async ({ id }: { id: string }) => {
    const { data } = (await must(200, world.call('get', `/api/v1/verifications/recent?apiKeyId=${id}`))).body;
    return data.map(({ clientAddress = '' }) => clientAddress).toSorted();
  };
  assert.equal(await told(ofKept), ['', '', forwarded, named]);
  assert.equal(await told(ofOther), ['', '', '']);
  const tables = await read<{ name: string }>('select name from system.tables where database = currentDatabase()');
  const holding: string[] = [];
  for (const { name } of tables) {
    const query = `select count() as rows from ${name} where toString(tuple(*)) like {text:String} settings max_threads = 1`;
    const [{ rows } = { rows: '0' }] = await read<{ rows: string }>(query, { text: `%${named}%` });
    if (rows !== '0') holding.push(`${name} ${rows}`);
  }
  assert.equal(holding, ['recent_refusals 1']);
});

test('a secret that is no key of the token counts for its team alone, without key and workspace', async () => {
  const [team, other] = [await world.newTeam(), await world.newTeam()];
  const foreign = await customers.newKey({ enabled: false });
  const rows = await rowsAfter(async ({ url }) => {
    for (const key of ['no key', foreign.key, foreign.key])
      await must(200, customers.verify({ key, route: 'GET /secret' }, { token: team.token, url }));
    const headers = { 'x-keytally-token': team.token };
    await request(`${url}/gateway/nginx/-/`, 'get', { token: null, headers });
  });
  const ofTeam = inAll(rows.filter((row) => row.team_id === team.id));
  const counts = ofTeam.map(({ reason, calls }) => `${reason} ${calls}`).toSorted();
  assert.equal(counts, ['MALFORMED 1', 'NOT_FOUND 2', 'NO_KEY 1']);
  for (const row of ofTeam) assert.equal([row.workspace_id, row.key_id, row.status], ['', '', 'INVALID']);
  assert.not(rows.some((row) => row.team_id === other.id || row.key_id === foreign.id));
});

/** Rows that differ by their minute alone, as one with the sum of their calls. */
function inAll(rows: Row[]): Row[] {
  const alike = Map.groupBy(rows, (row) => JSON.stringify({ ...row, minute: 0, calls: 0 }));
  return [...alike.values()].map((some) => {
    return { ...some[0]!, calls: String(some.reduce((sum, { calls }) => sum + Number(calls), 0)) };
  });
}

/** Asks a verify server; gives the rows of the books once it has stopped and they have all that it counted. */
async function rowsAfter(ask: (server: Started) => Promise<void>, settings = {}): Promise<Row[]> {
  const server = await world.start('verify', settings);
  await ask(server);
  await server.stop();
  await world.booked();
  return read<Row>('select * from refusals final');
}

async function read<Found>(query: string, query_params: Record<string, unknown> = {}): Promise<Found[]> {
  return (await world.books.client.query({ query, query_params, format: 'JSONEachRow' })).json<Found>();
}
