import { execFile } from 'node:child_process';
import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres, type Query, type Transaction } from '../../../shared/stores/postgres.ts';
import { knownMigrations, migratePostgres } from '../../../shared/stores/migrate.ts';
import { newId } from '../../../shared/values/ids.ts';
import type { MasterKeys } from '../../../shared/values/seal.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { metric } from '../../../tests/helpers/metric.ts';
import { emptyPostgres, eventually, spawnWorld, type ProcessWorld } from '../../../tests/helpers/world.ts';
import { chainHead, chainSome } from './chain.ts';
import { openChainKey, readChainState } from './chain-key.ts';
import { headText, lineFields, type Head } from './line-mac.ts';
import { proveAuditLog } from './verify-chain.ts';

let world: ProcessWorld;
let masterKeys: MasterKeys;
const test = suite('chain of the audit log');
test.before(async () => {
  world = await spawnWorld();
  masterKeys = [Buffer.from(world.env.MASTER_KEY!, 'base64')];
});
test.after(() => world?.stop());

test('each line has its place in one chain without gaps, though two processes chain and one is killed meanwhile', async () => {
  const second = await world.start('api');
  const urls = [world.api.url, second.url];
  let killed: Promise<unknown> | undefined;
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      for (let i = 0; i < 12; i++) {
        if (writer === 0 && i === 6) killed = second.stop('SIGKILL');
        const url = killed ? urls[0] : urls[writer % 2];
        await world.call('post', `${url}/api/v1/workspace`, { name: `${writer} ${i}` }).catch(() => {});
      }
    }),
  );
  await killed;
  await chained();
  const numbers = await world.sql<{ number: number }[]>`select number from audit_chain order by number`;
  const [{ lines }] = await world.sql<[{ lines: number }]>`select count(*) as lines from audit_log`;
  assert.ok(lines > 50, `${lines} lines`);
  assert.equal(
    numbers.map(({ number }) => number),
    Array.from({ length: lines }, (_, i) => i + 1),
  );
  assert.equal(await prove(world.sql), { head: await chainHead(world.sql), lines });
});

test('the chain proves every column of the audit log', async () => {
  const columns = await world.sql<{ name: string }[]>`
    select attname as name from pg_attribute where attrelid = 'audit_log'::regclass and attnum > 0 and not attisdropped`;
  const [line] = await world.sql`select ${lineFields(world.sql)} from audit_log l limit 1`;
  assert.is(columns.length, Object.keys(line!).length);
  const [{ number, id }] = await world.sql<[{ number: number; id: string }]>`
    select number, line_id as id from audit_chain order by number offset 3 limit 1`;
  for (const { name } of columns.filter(({ name }) => name !== 'id')) {
    const found = await tamper(async (tx) => {
      const [{ type }] = await tx<[{ type: string }]>`
        select format_type(atttypid, null) as type from pg_attribute where attrelid = 'audit_log'::regclass and attname = ${name}`;
      const value = { json: '{"a":1}', integer: '7', 'timestamp with time zone': '2026-01-01' }[type] ?? 'other';
      await tx.unsafe(`alter table audit_log drop constraint audit_log_whole`);
      await tx.unsafe(`update audit_log set ${name} = '${value}'::${type} where id = '${id}'`);
    });
    assert.is(found, `line ${number}, ${id}, is not as it was written`, name);
  }
});

test('the first line that was changed, removed, moved or planted is named', async () => {
  const places = await world.sql<{ number: number; lineId: string }[]>`
    select number, line_id from audit_chain order by number limit 6`;
  const [third, fourth] = [places[2]!, places[3]!];
  const cases: [string, (tx: Transaction) => Promise<unknown>][] = [
    [`line 3, ${third.lineId}, is gone`, (tx) => tx`delete from audit_log where id = ${third.lineId}`],
    ['line 3 of the chain is gone', (tx) => tx`delete from audit_chain where number = 3`],
    [
      'line 3 of the chain is gone',
      async (tx) => {
        await tx`delete from audit_log where id = ${third.lineId}`;
        await tx`delete from audit_chain where number = 3`;
      },
    ],
    [
      `line 3, ${fourth.lineId}, is not as it was written`,
      async (tx) => {
        await tx`update audit_chain set line_id = 'x' where number = 3`;
        await tx`update audit_chain set line_id = ${third.lineId} where number = 4`;
        await tx`update audit_chain set line_id = ${fourth.lineId} where number = 3`;
      },
    ],
    [
      'audit_0planted is in the audit log and not in its chain',
      (tx) => tx`insert into audit_log (id, team_id, operation, resource, resource_id)
                 values ('audit_0planted', ${world.team.id}, 'POST /x', 'scope', 's')`,
    ],
    [
      'audit_1vanished, which was not chained yet, is gone',
      (tx) => tx`insert into audit_unchained (line_id) values ('audit_1vanished')`,
    ],
    ['the key of the chain is gone', (tx) => tx`update audit_chain_state set key_sealed = null`],
  ];
  for (const [broken, change] of cases) assert.is(await tamper(change), broken);
});

test('lines removed from the end are missed by a head that was kept, and a proof goes on from one', async () => {
  const head = (await chainHead(world.sql))!;
  const cut = async (tx: Transaction) => {
    await tx`delete from audit_log where id in (select line_id from audit_chain where number > ${head.number - 2})`;
    await tx`delete from audit_chain where number > ${head.number - 2}`;
  };
  assert.is(await tamper(cut), undefined, 'nothing else shows it');
  const gone = `the chain had the head ${headText(head)}, and has it no more`;
  assert.is(await tamper(cut, { known: [head] }), gone);
  assert.is(await tamper(cut, { since: head }), gone);

  await must(201, world.call('post', '/api/v1/workspace', { name: 'later' }));
  await chained();
  assert.is((await prove(world.sql, { since: head })).lines, 1);
});

test('make audit-log-verify prints the head, takes it back, and fails when a line is not as it was', async () => {
  const whole = await verifyCommand();
  assert.is(whole.code, 0, whole.err);
  const [, head = ''] = /^head (\S+)$/m.exec(whole.out) ?? [];
  assert.match(whole.out, /^\d+ lines are as they were written, 0 not chained yet/);
  assert.match((await verifyCommand('--since', head)).out, /^0 lines are as they were written/);
  assert.is((await verifyCommand('--head', head)).code, 0);
  const wrong = await verifyCommand(
    '--head',
    head.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
  );
  assert.is(wrong.code, 1);
  assert.match(wrong.err, /BROKEN: the chain had the head/);
  assert.is((await verifyCommand('--since', 'yesterday')).code, 2);

  const [{ id, before }] = await world.sql<[{ id: string; before: string }]>`
    select id, operation as before from audit_log order by id limit 1`;
  await past((tx) => tx`update audit_log set operation = 'x' where id = ${id}`);
  const broken = await verifyCommand();
  await past((tx) => tx`update audit_log set operation = ${before} where id = ${id}`);
  assert.is(broken.code, 1);
  assert.match(broken.err, new RegExp(`BROKEN: line 1, ${id}, is not as it was written; 0 lines before it are proved`));
  assert.is((await verifyCommand()).code, 0);
});

test('lines of an earlier version are chained after the upgrade', async () => {
  const sql = connectPostgres(await emptyPostgres('old'), { max: 2 });
  try {
    const { postgres } = knownMigrations();
    await migratePostgres(sql, { only: postgres.filter((name) => name < '0008') });
    await sql`insert into teams (id, name) values ('t', 't')`;
    for (let i = 0; i < 450; i++)
      await sql`insert into audit_log (id, team_id, operation, resource, resource_id, after)
                values (${newId('audit')}, 't', 'POST /x', 'scope', 's', '{"a": 1}')`;
    await migratePostgres(sql);
    while (await chainSome(sql, masterKeys));
    const { keySealed } = await readChainState(sql);
    const proof = await proveAuditLog({
      sql,
      key: openChainKey(masterKeys, { keySealed }),
      known: [],
      onProgress() {},
    });
    assert.equal([proof.lines, proof.broken], [450, undefined]);
  } finally {
    await sql.end();
  }
});

test('the chain outlives a change of the master key', async () => {
  const sql = connectPostgres(await emptyPostgres('key'), { max: 2 });
  const [old, now]: [Buffer, Buffer] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  try {
    await migratePostgres(sql);
    await chainSome(sql, [old]);
    const key = openChainKey([old], await readChainState(sql));
    await chainSome(sql, [now, old]);
    assert.equal(openChainKey([now], await readChainState(sql)), key);
    assert.throws(() => openChainKey([old], { keySealed: Buffer.alloc(60) }), /opens neither under MASTER_KEY/);
  } finally {
    await sql.end();
  }
});

test('where the key was taken away, no other takes its place, and an api says so', async () => {
  const { keySealed, sealedUnder } = await readChainState(world.sql);
  await world.sql`update audit_chain_state set key_sealed = null, sealed_under = null`;
  try {
    await must(201, world.call('post', '/api/v1/workspace', { name: 'unproved' }));
    await eventually(
      'the metric says so',
      async () => (await metric(world.api.url, 'keytally_audit_log_broken')) === 1,
    );
    assert.is((await readChainState(world.sql)).keySealed, null);
  } finally {
    await world.sql`update audit_chain_state set key_sealed = ${keySealed}, sealed_under = ${sealedUnder}`;
  }
  await chained();
  await eventually('all is well', async () => (await metric(world.api.url, 'keytally_audit_log_broken')) === 0);
  assert.is((await prove(world.sql)).broken, undefined);
});

test('a line has the time at which it was written, and a request is found without its team being read', async () => {
  const plan = await world.sql.begin(async (tx) => {
    const [{ began }] = await tx<[{ began: Date }]>`select now() + interval '1 millisecond' as began`;
    await tx`select pg_sleep(0.01)`;
    const lines = await tx<{ createdAt: Date }[]>`
      insert into audit_log (id, team_id, operation, resource, resource_id, request_id)
      select 'audit_0' || substr(md5(n::text), 1, 9) || lpad(n::text, 16, '0'), ${world.team.id}, 'POST /x', 'scope', 's', 'r' || n
      from generate_series(1, 5000) as n returning created_at`;
    assert.ok(lines[0]!.createdAt > began);
    await tx`analyze audit_log`;
    return tx`explain select * from audit_log where team_id = ${world.team.id} and id > '' and request_id = 'r7' order by id limit 51`;
  });
  assert.match(JSON.stringify(plan), /Index Cond: [^"]*request_id = 'r7'/);
});

// Last: what it removes is gone.
test('an api says within seconds that the newest lines were removed', async () => {
  await chained();
  await past(async (tx) => {
    const removed = await tx<{ lineId: string }[]>`
      delete from audit_chain where number > (select max(number) - 2 from audit_chain) returning line_id`;
    await tx`delete from audit_log where id = any(${removed.map(({ lineId }) => lineId)})`;
  });
  await eventually('the metric says so', async () => (await metric(world.api.url, 'keytally_audit_log_broken')) === 1);
  const { code, err } = await verifyCommand();
  assert.is(code, 1);
  assert.match(err, /BROKEN: the chain had the head/);
});

test.run();

type Heads = { since?: Head; known?: Head[] };

async function prove(sql: Query, { since, known = [] }: Heads = {}) {
  const key = openChainKey(masterKeys, await readChainState(sql));
  return proveAuditLog({ sql, key, since, known, onProgress() {} });
}

/** What a proof says of a change that the database's owner made, which is then undone. */
async function tamper(change: (tx: Transaction) => Promise<unknown>, heads: Heads = {}): Promise<string | undefined> {
  let broken: string | undefined;
  const undone = new Error('undone');
  await world.sql
    .begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await change(tx);
      ({ broken } = await prove(tx, heads));
      throw undone;
    })
    .catch((error: unknown) => {
      if (error !== undone) throw error;
    });
  return broken;
}

/** Changes something past the triggers, as the database's owner can. */
async function past(change: (tx: Transaction) => Promise<unknown>): Promise<void> {
  await world.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await change(tx);
  });
}

/** Waits until all lines are chained and Redis keeps the head. */
async function chained(): Promise<void> {
  await eventually('every line is chained', async () => {
    const [{ waiting }] = await world.sql<[{ waiting: number }]>`select count(*) as waiting from audit_unchained`;
    return waiting === 0;
  });
  const head = (await chainHead(world.sql))!;
  await eventually('Redis keeps the head', async () => (await keptHead()) === headText(head));
}

async function keptHead(): Promise<string | null> {
  const redis = new Redis(world.env.REDIS_URL!);
  try {
    return await redis.get('{00}:audit-head');
  } finally {
    redis.disconnect();
  }
}

async function verifyCommand(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const url = new URL(process.env.TEST_API_POSTGRES_URL!);
  url.pathname = new URL(world.env.DATABASE_URL!).pathname;
  const script = new URL('../commands/audit-log-verify.ts', import.meta.url).pathname;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [script, ...args],
      { env: { ...world.env, DATABASE_URL: url.href } },
      (error, out, err) => resolve({ code: error ? Number(error.code) : 0, out, err }),
    );
  });
}
