import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../shared/contract/caller.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { newId } from '../../../shared/values/ids.ts';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { makeTestClock } from '../../../tests/helpers/clock.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../tests/helpers/world.ts';
import { startApiBy } from '../tests/helpers/own-api.ts';
import { gatherDeniedAttempts } from './denied-attempts.ts';

const UNKNOWN_WORKSPACE = '/api/v1/workspace/ws_01h455vb4pex5vsknk084sn02q';
const world = await joinWorld();
const sql = connectPostgres(world.env.DATABASE_URL!, { max: 2, everyTeam: true });
test.after(() => sql.end());

test('each kind of refused attempt of a known token leaves a line: who, what, why, from where; a stranger leaves none', async () => {
  const { id, token } = await world.newTeam();
  const api = await startApiBy(makeTestClock(Date.now()), world);
  const made = async () =>
    (await must(201, world.call('post', '/api/v1/access-token', { name: 't', permissions: ['key:read'] }, { token })))
      .body.accessToken;
  const [narrow, revoked, expired] = [await made(), await made(), await made()];
  const limited = await world.newToken(id, permissions, [await world.newWorkspace(id)]);
  await must(200, world.call('delete', `/api/v1/access-token/${revoked.id}`, undefined, { token }));
  await world.sql`update access_tokens set expires_at = 1 where id = ${expired.id}`;
  const refused: [string, string, string, number][] = [
    ['get', '/api/v1/workspace', narrow.token, 40301],
    ['get', UNKNOWN_WORKSPACE, token, 40302],
    ['post', '/api/v1/workspace', limited, 40302],
    ['get', '/api/v1/workspace', revoked.token, 40102],
    ['get', '/api/v1/workspace', expired.token, 40102],
    ['get', '/api/v1/workspace', makeKeyText('kt', 3), 40102],
  ];
  for (const [i, [method, path, by, code]] of refused.entries()) {
    const headers = { 'User-Agent': 'prober/1', 'X-Request-Id': `r${i}` };
    const body = method === 'post' ? { name: 'n' } : undefined;
    const answer = await world.call(method, api.url + path, body, { token: by, headers });
    assert.is(answer.body.error?.code, code, path);
  }
  // It writes what it has not written yet.
  await api.stop();
  const lines = await denied(token);
  assert.is(lines.length, refused.length - 1);
  for (const [i, [method, path, , code]] of refused.slice(0, -1).entries()) {
    const line = lines.find(({ requestId }) => requestId === `r${i}`)!;
    const operation = `${method.toUpperCase()} ${path === UNKNOWN_WORKSPACE ? '/api/v1/workspace/{id}' : path}`;
    assert.equal([line.operation, line.errorCode, line.actor, line.attempts], [operation, code, 'access_token', 1]);
    assert.equal([line.address, line.userAgent], ['127.0.0.1', 'prober/1']);
    assert.ok(line.tokenId && !('resource' in line || 'before' in line || 'after' in line));
  }
});

test('many attempts alike leave one line at once, and one a minute with their number, which tells of the first', async () => {
  const { clock, attempts, note, token } = await gathering();
  note('first');
  note('second');
  const writing = attempts.write(false);
  note('while the line is written');
  await writing;
  note('later');
  await attempts.write(false);
  assert.equal(await told(token), ['first: 2']);
  await clock.advance(60_000);
  await attempts.write(false);
  assert.equal(await told(token), ['first: 2', 'while the line is written: 2']);
});

test('a line that could not be written is written later, with what came meanwhile; others do not wait for it', async () => {
  const { id: teamId } = await world.newTeam();
  const { attempts, note, token, caller } = await gathering();
  // Of a token that Postgres does not have yet.
  const tokenId = newId('tok');
  note('lost', { ...caller, teamId, tokenId });
  note('of another team');
  await attempts.write(false);
  assert.equal(await told(token), ['of another team: 1']);
  note('meanwhile', { ...caller, teamId, tokenId });
  await world.sql`
    insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions)
    values (${tokenId}, ${teamId}, 'n', ${tokenId}, '', 7, '{}')`;
  await attempts.write(false);
  const lines = await world.sql`select request_id, attempts from audit_log where token_id = ${tokenId}`;
  assert.equal(
    lines.map((line) => ({ ...line })),
    [{ requestId: 'lost', attempts: 2 }],
  );
});

test('what one token and all strangers can make the log and the memory hold is bounded, and the rest is counted', async () => {
  const { attempts, note, noteStranger, token, counted } = await gathering();
  for (let i = 0; i < 100; i++) note('r', undefined, `GET /${i}`);
  for (let i = 0; i < 1_500; i++) noteStranger(makeKeyText('kt', 1));
  for (const secret of ['kt', 'eyJ.a.b']) noteStranger(secret);
  await attempts.write(true);
  assert.is((await denied(token)).length, 20);
  assert.equal([await counted('over_limit'), await counted('unknown_token')], [80 + 500, 1_000 + 2]);
});

type Line = Record<string, unknown> & { requestId: string; operation: string; attempts: number };
type Gatherer = { teamId: string; tokenId: string; permissions: Set<string>; workspaceIds: undefined };

async function gathering() {
  const { id, token } = await world.newTeam();
  const [row] = await world.sql<[{ id: string }]>`select id from access_tokens where team_id = ${id}`;
  const caller: Gatherer = { tokenId: row.id, teamId: id, permissions: new Set(), workspaceIds: undefined };
  const [clock, metrics] = [makeTestClock(), makeMetrics('test')];
  const attempts = gatherDeniedAttempts({ sql, teamSql: sql, metrics, log: makeLogger('test', 'silent'), clock });
  const client = { address: '::1', userAgent: null };
  const noted = { authorization: '', errorCode: 40301, client };
  return {
    clock,
    attempts,
    token,
    caller,
    note: (requestId: string, by = caller, operation = 'GET /') =>
      attempts.note({ ...noted, caller: by, operation, requestId }),
    noteStranger: (secret: string) =>
      attempts.note({
        ...noted,
        caller: undefined,
        authorization: `Bearer ${secret}`,
        operation: 'GET /',
        requestId: 'r',
      }),
    async counted(kind: string) {
      const { values } = await metrics.deniedAttempts.get();
      return values.find(({ labels }) => labels.kind === kind)?.value;
    },
  };
}

async function told(token: string): Promise<string[]> {
  return (await denied(token)).map(({ requestId, attempts }) => `${requestId}: ${attempts}`).toSorted();
}

async function denied(token: string): Promise<Line[]> {
  return (await must(200, world.call('get', '/api/v1/audit-log?outcome=denied&limit=200', undefined, { token }))).body
    .auditLog;
}
