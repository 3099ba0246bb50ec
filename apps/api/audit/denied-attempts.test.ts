import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { permissions } from '../../../shared/contract/caller.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';
import { logDeniedAttempts } from './denied-attempts.ts';

const UNKNOWN_WORKSPACE = '/api/v1/workspace/ws_01h455vb4pex5vsknk084sn02q';
let world: World;
const test = suite('refused attempts in the audit log');
test.before(async () => {
  world = await makeWorld();
});
test.after(() => world?.stop());

test('each kind of refused attempt of a known token leaves a line: who, what, why, from where', async () => {
  const { id, token } = await world.newTeam();
  const made = async (body: object) =>
    (await must(201, world.call('post', '/api/v1/access-token', { name: 't', ...body }, { token }))).body.accessToken;
  const [narrow, revoked, expired] = [
    await made({ permissions: ['key:read'] }),
    await made({ permissions: ['workspace:read'] }),
    await made({ permissions: ['workspace:read'] }),
  ];
  const limited = await world.newToken(id, permissions, [await world.newWorkspace(id)]);
  await must(200, world.call('delete', `/api/v1/access-token/${revoked.id}`, undefined, { token }));
  await world.sql`update access_tokens set expires_at = 1 where id = ${expired.id}`;
  const options = (by: string) => ({
    token: by,
    headers: { 'User-Agent': 'prober/1', 'X-Request-Id': `r-${by.slice(-4)}` },
  });
  const refused: [string, string, string, number][] = [
    ['get', '/api/v1/workspace', narrow.token, 40301],
    ['get', UNKNOWN_WORKSPACE, token, 40302],
    ['post', '/api/v1/workspace', limited, 40302],
    ['get', '/api/v1/workspace', revoked.token, 40102],
    ['get', '/api/v1/workspace', expired.token, 40102],
  ];
  for (const [method, path, by, code] of refused)
    await eventually(`${path} is refused`, async () => {
      const body = method === 'post' ? { name: 'n' } : undefined;
      return (await world.call(method, path, body, options(by))).body.error?.code === code;
    });
  const lines = await eventually('all are in the log', async () => {
    const found = await denied(token);
    return found.length >= refused.length ? found : undefined;
  });
  assert.is(lines.length, refused.length);
  for (const [method, path, by, code] of refused) {
    const line = lines.find((one) => one.requestId === `r-${by.slice(-4)}`)!;
    assert.ok(line, `${method} ${path}`);
    const operation = `${method.toUpperCase()} ${path === UNKNOWN_WORKSPACE ? '/api/v1/workspace/{id}' : path}`;
    assert.equal([line.operation, line.errorCode, line.actor], [operation, code, 'access_token']);
    assert.equal([line.address, line.userAgent], ['127.0.0.1', 'prober/1']);
    assert.ok(line.attempts >= 1 && line.tokenId);
    assert.not.ok('resource' in line || 'before' in line || 'after' in line);
  }
});

test('many attempts alike leave one line at once, and their number', async () => {
  const { id, token } = await world.newTeam();
  const weak = await world.newToken(id, ['key:read']);
  for (let i = 0; i < 3; i++)
    await Promise.all(
      Array.from({ length: 100 }, () => must(403, world.call('get', '/api/v1/workspace', undefined, { token: weak }))),
    );
  const lines = await eventually('it is in the log', async () => {
    const found = await denied(token);
    return found.length > 0 ? found : undefined;
  });
  assert.is(lines.length, 1);
  assert.ok(lines[0]!.attempts >= 1 && lines[0]!.attempts <= 300);
});

test("a stranger's attempts leave no line, and are counted", async () => {
  const ofStrangers = async () =>
    Number(/denied_attempts_total\{[^}]*unknown_token[^}]*\} (\d+)/.exec(await metricsOf(world.api.url))?.[1] ?? 0);
  const counted = await ofStrangers();
  const headers = { 'User-Agent': 'stranger/1' };
  const strangers = ['kt', makeKeyText('kt', 3), makeKeyText('key', 4), 'eyJ.a.b'];
  for (const token of [null, ...strangers])
    await must(401, world.call('get', '/api/v1/workspace', undefined, { token, headers }));
  await eventually('they are counted', async () => (await ofStrangers()) === counted + 5);
  assert.is((await world.sql`select from audit_log where user_agent = 'stranger/1'`).length, 0);
});

test('a refused attempt does not wait for the log, and its line comes once the log takes lines again', async () => {
  const { id, token } = await world.newTeam();
  const weak = await world.newToken(id, ['key:read']);
  let answered = false;
  await world.sql.begin(async (tx) => {
    await tx`lock table audit_log in access exclusive mode`;
    await must(403, world.call('get', '/api/v1/workspace', undefined, { token: weak }));
    answered = true;
  });
  assert.ok(answered, 'while the table was locked');
  await eventually('its line is there', async () => (await denied(token)).length === 1);
});

test('an attempt that comes while tokens are looked for is not lost', async () => {
  const metrics = makeMetrics('test');
  const sql = connectPostgres(world.env.DATABASE_URL!, { max: 2, everyTeam: true });
  const log = logDeniedAttempts(sql, sql, metrics, makeLogger('test', 'silent'), systemClock);
  const client = { address: '::1', userAgent: null };
  const noteStranger = () =>
    log.note({
      caller: undefined,
      authorization: `Bearer ${makeKeyText('kt', 1)}`,
      operation: 'GET /',
      errorCode: 40102,
      requestId: 'r',
      client,
    });
  await world.sql.begin(async (tx) => {
    await tx`lock table access_tokens in access exclusive mode`;
    noteStranger();
    await eventually('it is looked for', async () => {
      const waiting = await world.sql`
        select from pg_locks where not granted and relation = 'access_tokens'::regclass
          and pid in (select pid from pg_stat_activity where query like '%from access_tokens where hash = any%')`;
      return waiting.length > 0;
    });
    noteStranger();
  });
  await log.stop();
  await sql.end();
  assert.match(await metrics.registry.metrics(), /kind="unknown_token"[^}]*\} 2$/m);
});

test('an attempt that comes while a line is written is the first that the next line tells of', async () => {
  assert.equal(await linesOfTwo(async () => {}), ['first: 1', 'second: 1']);
});

test('a line that could not be written is written later, with what came meanwhile', async () => {
  const lines = await linesOfTwo((writer) => world.sql`select pg_terminate_backend(${writer})`);
  assert.equal(lines, ['first: 2']);
});

test('what one token, one team and all strangers can make the log and the memory hold is bounded', async () => {
  const metrics = makeMetrics('test');
  const sql = connectPostgres(world.env.DATABASE_URL!, { max: 2, everyTeam: true });
  const log = logDeniedAttempts(sql, sql, metrics, makeLogger('test', 'silent'), systemClock);
  const { token, caller } = await newCaller();
  const attempt = { authorization: '', errorCode: 40301, requestId: 'r', client: { address: '::1', userAgent: null } };
  const size = process.memoryUsage().heapUsed;
  for (let i = 0; i < 100_000; i++) log.note({ ...attempt, caller, operation: `GET /${i}` });
  for (let i = 0; i < 100_000; i++)
    log.note({ ...attempt, caller: undefined, authorization: `Bearer ${makeKeyText('kt', 1)}`, operation: 'GET /' });
  assert.ok(process.memoryUsage().heapUsed - size < 50_000_000, 'the memory is bounded');
  await log.stop();
  await sql.end();
  assert.is((await denied(token)).length, 20);
  const text = await metrics.registry.metrics();
  const over = /kind="over_limit"[^}]*\} (\d+)/.exec(text)?.[1];
  assert.is(Number(over), 99_980 + 99_000, text.match(/.*denied_attempts.*/g)?.join('\n'));
});

test.run();

async function newCaller() {
  const { id, token } = await world.newTeam();
  const [row] = await world.sql<[{ id: string }]>`select id from access_tokens where team_id = ${id}`;
  return { token, caller: { tokenId: row.id, teamId: id, permissions: new Set<string>(), workspaceIds: undefined } };
}

/** The lines of two attempts alike, the second of which comes while Postgres process `writer` writes the first. */
async function linesOfTwo(meanwhile: (writer: number) => Promise<unknown>): Promise<string[]> {
  const sql = connectPostgres(world.env.DATABASE_URL!, { max: 2, statementTimeoutMs: 150_000, everyTeam: true });
  const log = logDeniedAttempts(sql, sql, makeMetrics('test'), makeLogger('test', 'silent'), systemClock);
  const { token, caller } = await newCaller();
  const note = (requestId: string) =>
    log.note({
      caller,
      authorization: '',
      operation: 'GET /',
      errorCode: 40301,
      requestId,
      client: { address: '::1', userAgent: null },
    });
  await world.sql.begin(async (tx) => {
    const [holder] = await tx<[{ pid: number }]>`
      select pg_backend_pid() as pid from teams where id = ${caller.teamId} for update`;
    note('first');
    const writer = await eventually('its line waits for the team', async () => {
      const waiting = world.sql<{ pid: number }[]>`
        select pid from pg_stat_activity where ${holder.pid} = any(pg_blocking_pids(pid))`;
      return (await waiting)[0]?.pid;
    });
    note('second');
    await meanwhile(writer);
  });
  await log.stop();
  await sql.end();
  return (await denied(token)).map(({ requestId, attempts }) => `${requestId}: ${attempts}`).toSorted();
}

async function metricsOf(url: string): Promise<string> {
  return (await fetch(`${url}/metrics`)).text();
}

type Line = Record<string, unknown> & { requestId: string; operation: string; attempts: number };

async function denied(token: string): Promise<Line[]> {
  return (await must(200, world.call('get', '/api/v1/audit-log?outcome=denied&limit=200', undefined, { token }))).body
    .auditLog;
}
