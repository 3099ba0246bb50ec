import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectPostgres, type Query, type Transaction } from '../../../shared/stores/postgres.ts';
import { newId } from '../../../shared/values/ids.ts';
import { connectTestRedis, emptyPostgres } from '../../../tests/helpers/world.ts';
import { undone } from '../tests/helpers/undone.ts';
import { chainHead, chainSome, proveAuditLog, headText, readKeptHead, type Head, makeChainer } from './chain.ts';

const TEAM = newId('team');
const url = await emptyPostgres('chain', 'keytally_template');
const sql = connectPostgres(url, { max: 8, statementTimeoutMs: 0 });
const redis = await connectTestRedis();
await sql`insert into teams (id, name) values (${TEAM}, ${TEAM})`;
test.after(async () => void (await Promise.all([sql.end(), redis.close()])));

test('each line has its place in one chain without gaps, though several processes write and chain at once', async () => {
  await Promise.all([...Array.from({ length: 4 }, () => write(150)), ...Array.from({ length: 3 }, () => chain())]);
  await chain();
  const [numbers] = await sql`select count(*)::int as count, min(number), max(number) from audit_chain`;
  assert.equal({ ...numbers }, { count: 600, min: 1, max: 600 });
  assert.equal(await prove(sql), { head: (await chainHead(sql)).head, lines: 600 });
});

test('the chain proves every column of the audit log', async () => {
  const columns = await sql<{ name: string; type: string }[]>`
    select attname as name, format_type(atttypid, null) as type from pg_attribute
    where attrelid = 'audit_log'::regclass and attnum > 0 and not attisdropped`;
  const [{ id }] = await sql<[{ id: string }]>`select line_id as id from audit_chain where number = 4`;
  for (const { name, type } of columns.filter(({ name }) => name !== 'id')) {
    const found = await tamper(async (tx) => {
      const value = { json: '{"a":1}', integer: '7', 'timestamp with time zone': '2026-01-01' }[type] ?? 'other';
      await tx.unsafe(`alter table audit_log drop constraint audit_log_whole`);
      await tx.unsafe(`update audit_log set ${name} = '${value}'::${type} where id = '${id}'`);
    });
    assert.is(found, `line 4, ${id}, is not as it was written`, name);
  }
});

test('the first line that was changed, removed, moved or planted is named', async () => {
  const places = await sql<{ lineId: string }[]>`select line_id from audit_chain order by number limit 4`;
  const [third, fourth] = [places[2]!.lineId, places[3]!.lineId];
  const cases: [string, (tx: Transaction) => Promise<unknown>][] = [
    [`line 3, ${third}, is gone`, (tx) => tx`delete from audit_log where id = ${third}`],
    ['line 3 of the chain is gone', (tx) => tx`delete from audit_chain where number = 3`],
    [
      'line 3 of the chain is gone',
      async (tx) => {
        await tx`delete from audit_log where id = ${third}`;
        await tx`delete from audit_chain where number = 3`;
      },
    ],
    [
      `line 3, ${fourth}, is not as it was written`,
      async (tx) => {
        await tx`update audit_chain set line_id = 'x' where number = 3`;
        await tx`update audit_chain set line_id = ${third} where number = 4`;
        await tx`update audit_chain set line_id = ${fourth} where number = 3`;
      },
    ],
    [
      'audit_0planted is in the audit log and not in its chain',
      (tx) => tx`insert into audit_log (id, team_id, operation, resource, resource_id)
                 values ('audit_0planted', ${TEAM}, 'POST /x', 'scope', 's')`,
    ],
    [
      'audit_1vanished, which was not chained yet, is gone',
      (tx) => tx`insert into audit_unchained (line_id) values ('audit_1vanished')`,
    ],
  ];
  for (const [broken, change] of cases) assert.is(await tamper(change), broken);
});

test('a head that was kept misses lines removed from the end, and a chain that was written again; a proof goes on from one', async () => {
  const head = (await chainHead(sql)).head!;
  assert.is(await tamper(cutEnd), undefined, 'nothing else shows it');
  const gone = `the chain had the head ${headText(head)}, and has it no more`;
  assert.is(await tamper(cutEnd, { known: [head] }), gone);
  assert.is(await tamper(cutEnd, { since: head }), gone);
  assert.equal([await tamper(writeAgain), await tamper(writeAgain, { known: [head] })], [undefined, gone]);
  await write(1);
  await chain();
  assert.is((await prove(sql, { since: head })).lines, 1);
});

test('the api keeps the head in Redis, and tells when lines that it has seen are gone', async () => {
  const metrics = makeMetrics('test');
  const pass = makeChainer({ sql, redis, metrics, log: makeLogger('test', 'silent') });
  const broken = async () => (await metrics.auditLogBroken.get()).values[0]!.value;
  await write(5);
  await pass();
  const head = (await chainHead(sql)).head!;
  assert.equal([await broken(), await readKeptHead(redis)], [0, head]);

  const whole = verifyCommand();
  assert.match(whole.stdout, /^[\d,]+ lines are as they were written, 0 not chained yet/);
  const printed = /^head (\S+)$/m.exec(whole.stdout)![1]!;
  assert.match(verifyCommand('--since', printed).stdout, /^0 lines are as they were written/);
  assert.is(verifyCommand('--since', 'yesterday').status, 2);

  await sql.begin((tx) => past(tx, cutEnd));
  await pass();
  assert.equal([await broken(), headText((await readKeptHead(redis))!)], [1, printed]);
  const { status, stderr } = verifyCommand();
  assert.is(status, 1);
  assert.match(stderr, /BROKEN: the chain had the head/);
});

async function write(lines: number): Promise<void> {
  for (let i = 0; i < lines; i += 50) await addLines(sql, Math.min(50, lines - i));
}

function addLines(tx: Query, lines: number) {
  const ids = Array.from({ length: lines }, () => newId('audit'));
  return tx`
    insert into audit_log (id, team_id, operation, resource, resource_id, after)
    select id, ${TEAM}, 'POST /x', 'scope', 's', '{"a": 1}' from unnest(${ids}::text[]) as made (id)`;
}

async function chain(): Promise<void> {
  while (await chainSome(sql));
}

async function cutEnd(tx: Transaction): Promise<void> {
  const removed = await tx<{ lineId: string }[]>`
    delete from audit_chain where number > (select max(number) - 2 from audit_chain) returning line_id`;
  await tx`delete from audit_log where id = any(${removed.map(({ lineId }) => lineId)})`;
}

async function writeAgain(tx: Transaction): Promise<void> {
  await tx`update audit_log set operation = 'other' where id = (select line_id from audit_chain where number = 3)`;
  await tx`insert into audit_unchained (line_id) select line_id from audit_chain`;
  await tx`delete from audit_chain`;
  while (await chainSome(tx));
}

type Heads = { since?: Head; known?: Head[] };

const prove = (query: Query, { since, known = [] }: Heads = {}) => proveAuditLog(query, { since, known });

/** What a proof says of a change that the database's owner made, which is then undone. */
async function tamper(change: (tx: Transaction) => Promise<unknown>, heads: Heads = {}): Promise<string | undefined> {
  return undone(sql, async (tx) => {
    await past(tx, change);
    return (await prove(tx, heads)).broken;
  });
}

/** Changes something past the triggers, as the database's owner can. */
async function past(tx: Transaction, change: (tx: Transaction) => Promise<unknown>): Promise<void> {
  await tx`set local session_replication_role = replica`;
  await change(tx);
}

/** `make audit-log-verify` */
function verifyCommand(...args: string[]) {
  const REDIS_URL = new URL(process.env.TEST_REDIS_URL!);
  REDIS_URL.pathname = `/${process.env.TEST_SLOT}`;
  const env = { DATABASE_URL: url, REDIS_URL: REDIS_URL.href };
  const command = ['apps/api/commands/audit-log-verify.ts', ...args];
  return spawnSync(process.execPath, command, { env: { ...process.env, ...env }, encoding: 'utf8' });
}
