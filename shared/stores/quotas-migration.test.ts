import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { knownMigrations, migratePostgres } from './migrate.ts';
import { connectPostgres } from './postgres.ts';

test('what teams had before their quotas counts from the migration on', async () => {
  const url = new URL(process.env.TEST_POSTGRES_URL!);
  const name = `quotas_${process.env.TEST_SLOT}`;
  const admin = connectPostgres(url.href, { max: 1 });
  await admin`drop database if exists ${admin(name)} with (force)`;
  await admin`create database ${admin(name)}`;
  url.pathname = `/${name}`;
  const sql = connectPostgres(url.href, { max: 1 });
  try {
    await migratePostgres(sql, { only: knownMigrations().postgres.filter((file) => file < '0005') });
    await sql`insert into teams (id, name) values ('a', 'a'), ('b', 'b'), ('none', 'none')`;
    await sql`
      insert into workspaces (id, team_id, name, default_allowed_ips, deleted_at, keys_removed_to, removed_at)
      values ('live', 'a', 'w', '{10.0.0.1,10.0.0.2}', null, '', null), ('going', 'a', 'w', '{}', now(), 'k3', null),
             ('gone', 'b', 'w', '{}', now(), 'k9', now())`;
    await sql`
      insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, deleted_at, metadata)
      select id, 'a', ws, 0, 'k', 'key', '', true, deleted::timestamptz, '{"a":1}'
      from (values ('k1', 'live', null), ('k2', 'live', 'now'), ('k3', 'going', null), ('k4', 'going', null)) t (id, ws, deleted)`;
    await sql`
      insert into key_texts (hash, team_id, key_id, valid_until, replaced_at)
      values ('h1', 'a', 'k1', null, null), ('h2', 'a', 'k1', 1, now()), ('h3', 'a', 'k1', null, now() - interval '1 day')`;
    await sql`
      insert into scopes (id, team_id, workspace_id, ref, name, representation, deleted_at, removed_at)
      values ('s1', 'a', 'live', 1, 's', 'r1', null, null), ('s2', 'a', 'live', 2, 's', 'r2', now(), null), ('s3', 'a', 'live', 3, 's', 'r3', now(), now())`;
    await sql`
      insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions, revoked_at)
      values ('t', 'a', 't', 't', '', 0, '{}', now())`;
    await sql`
      insert into link_tokens (id, team_id, workspace_id, customer_id, hash, expires_at, revoked_at)
      values ('l1', 'a', 'live', 'c', 'l1', 1, null), ('l2', 'a', 'live', 'c', 'l2', 1, now())`;
    await sql`
      insert into idempotency_keys (token_id, team_id, key_hash, request_hash, status, answer)
      values ('t', 'a', 'i1', '', 201, '\\x010203'), ('t', 'a', 'i2', '', 201, '\\x01')`;
    await migratePostgres(sql);

    const used = await sql`select * from team_usage order by team_id`;
    assert.equal([...used], [...(await sql`select * from counted_team_usage order by team_id`)]);
    const { storedBytes, ...counts } = used[0]!;
    const none = { accessTokens: 0, billingRecords: 0 };
    const ended = { linkTokens: 2, keptAnswerBytes: 2 * 512 + 4 };
    assert.equal(counts, { teamId: 'a', workspaces: 1, keys: 2, scopes: 1, ...none, ...ended });
    // A key has 512 bytes, its name and its metadata; k1 has two secrets that work, and k3 was given back.
    const keys = 1 + 2 * (512 + 7) + 2 * (1 + 512 + 7);
    const workspaces = 2 * (1 + 64 * 192) + 64 * 2 * 32;
    assert.is(storedBytes, keys + workspaces + 2 * (1 + 64 * (128 + 2)));
    assert.is(used[1]!.storedBytes, 0);

    await sql`update key_texts set valid_until = null where hash = 'h2'`;
    await sql`update api_keys set deleted_at = now() where id = 'k1'`;
    const [after] = await sql`select * from team_usage where team_id = 'a'`;
    assert.equal([after!.keys, after!.storedBytes], [1, storedBytes - 519]);
  } finally {
    await sql.end();
    await admin`drop database if exists ${admin(name)} with (force)`;
    await admin.end();
  }
});

test.run();
