import { createClient } from '@clickhouse/client';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { clickHouseStatements } from './migrate.ts';

test('on a cluster every table is a replicated one on all servers, and nothing else differs', async () => {
  const plain = clickHouseStatements('keytally', '');
  const replicated = clickHouseStatements('keytally', 'main');
  assert.is(plain.length, replicated.length);
  assert.is(replicated[0], 'create database if not exists `keytally` on cluster `main`');
  for (const [i, statement] of replicated.entries()) {
    if (!statement.startsWith('create ')) {
      assert.is(statement, plain[i]);
      continue;
    }
    assert.match(statement, /^create (database|table) if not exists \S+ on cluster `main`/);
    if (i > 0) assert.match(statement, /^engine = ReplicatedReplacingMergeTree/m);
    const back = statement.replace(' on cluster `main`', '').replace('engine = Replicated', 'engine = ');
    assert.is(back, plain[i]);
  }
});

test('ClickHouse reads the statements for a cluster', async () => {
  const client = createClient({ url: process.env.TEST_CLICKHOUSE_URL! });
  for (const query of clickHouseStatements('keytally', 'main')) {
    const result = await client.query({ query: 'select formatQuery({query:String}) as sql', query_params: { query } });
    const { data } = await result.json<{ sql: string }>();
    assert.match(data[0]!.sql, query.startsWith('create ') ? /ON CLUSTER main/ : /^INSERT INTO/);
  }
  await client.close();
});

test.run();
