import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../shared/contract/caller.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { newId } from '../../../shared/values/ids.ts';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { makeTestClock } from '../../../tests/helpers/clock.ts';
import { startApiBy } from '../tests/helpers/own-api.ts';
import { gatherDeniedAttempts } from './denied-attempts.ts';
import { callsOf, joinWorld, refused } from '../tests/helpers/calls.ts';

const UNKNOWN_WORKSPACE = '/api/v1/workspace/ws_01h455vb4pex5vsknk084sn02q';
const world = await joinWorld();
const sql = connectPostgres(world.env.DATABASE_URL!, { max: 2, everyTeam: true });
test.after(() => sql.end());

test('each kind of refused attempt of a known token leaves a line: who, what, why, from where; a stranger leaves none', async () => {
  const { id, token } = await world.newTeam();
  const api = await startApiBy(makeTestClock(Date.now()), world);
  const by = callsOf(world, token);
  const made = () => by.make('/api/v1/access-token', { name: 't', permissions: ['key:read'] });
  const [narrow, revoked, expired] = [await made(), await made(), await made()];
  const limited = await world.newToken(id, permissions, [await world.newWorkspace(id)]);
  await by.remove(`/api/v1/access-token/${revoked.id}`);
  await world.sql`update access_tokens set expires_at = 1 where id = ${expired.id}`;
  const attempts = [
    ['get', '/api/v1/workspace', narrow.token, 40301, 'GET /api/v1/workspace'],
    ['get', UNKNOWN_WORKSPACE, token, 40302, 'GET /api/v1/workspace/{id}'],
    ['post', '/api/v1/workspace', limited, 40302, 'POST /api/v1/workspace'],
    ['get', '/api/v1/workspace', revoked.token, 40102, 'GET /api/v1/workspace'],
    ['get', '/api/v1/workspace', expired.token, 40102, 'GET /api/v1/workspace'],
    ['get', '/api/v1/workspace', makeKeyText('kt', 3), 40102, undefined],
  ] as const;
  for (const [i, [method, path, secret, code]] of attempts.entries()) {
    const headers = { 'User-Agent': 'prober/1', 'X-Request-Id': `r${i}` };
    const body = method === 'post' ? { name: 'n' } : undefined;
    await refused(code, callsOf(world, secret).ask(method, api.url + path, body, headers), path);
  }
  // It writes what it has not written yet.
  await api.stop();
  const lines = await denied(token);
  assert.is(lines.length, attempts.length - 1);
  for (const [i, [, , , code, operation]] of attempts.slice(0, -1).entries()) {
    const line = lines.find(({ requestId }) => requestId === `r${i}`)!;
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
  assert.equal([...lines], [{ requestId: 'lost', attempts: 2 }]);
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

async function gathering() {
  const { id, token } = await world.newTeam();
  const [row] = await world.sql<[{ id: string }]>`select id from access_tokens where team_id = ${id}`;
  const caller = { tokenId: row.id, teamId: id, permissions: new Set<string>(), workspaceIds: undefined };
  const [clock, metrics] = [makeTestClock(), makeMetrics('test')];
  const attempts = gatherDeniedAttempts({ sql, teamSql: sql, metrics, log: makeLogger('test', 'silent'), clock });
  const client = { address: '::1', userAgent: null };
  const noted = { authorization: '', errorCode: 40301, client, operation: 'GET /', requestId: 'r' };
  return {
    clock,
    attempts,
    token,
    caller,
    note: (requestId: string, by = caller, operation = 'GET /') =>
      attempts.note({ ...noted, caller: by, operation, requestId }),
    noteStranger: (secret: string) => attempts.note({ ...noted, caller: undefined, authorization: `Bearer ${secret}` }),
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
  return await callsOf(world, token).read('/api/v1/audit-log?outcome=denied&limit=200');
}
