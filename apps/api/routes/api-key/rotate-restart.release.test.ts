import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { removeExpired } from '../../../consumer/jobs/expire.ts';
import { makeCustomers, must } from '../../../../tests/helpers/customers.ts';
import { untilOpen } from '../../../../tests/helpers/own-redis.ts';
import { makeRebuildWorld } from '../../../../tests/helpers/rebuild-world.ts';
import { eventually } from '../../../../tests/helpers/world.ts';

// A Redis that comes back from before a rotation, or the deletion of a workspace, still holds as valid what has ended since.
type Key = { id: string; key: string };
let rotated: Key, graced: Key, disabled: Key, deleted: Key, ofDeleted: Key, untouched: Key;
const own = await makeRebuildWorld('rotations', { BUS: 'redis' });
const { newKey } = own.customers;
[rotated, graced, disabled] = [await newKey(), await newKey(), await newKey()];
[deleted, untouched] = [await newKey(), await newKey()];
const { workspace } = (await must(201, own.world.call('post', '/api/v1/workspace', { name: 'deleted' }))).body;
const customers = makeCustomers(own.world, workspace.id);
ofDeleted = await customers.meteredKey('10');
await own.redis.keep('before');
await everyShardIsOpen();
await rotate(rotated);
await rotate(graced, { graceSeconds: 1 });
await rotate(disabled);
await rotate(deleted);
await eventually('the grace has ended', async () => (await status(graced)) === 'INVALID');
// These later changes do not write the replaced secrets again.
await must(200, own.world.call('patch', pathOf(disabled), { enabled: false }));
await must(200, own.world.call('delete', pathOf(deleted)));
await must(200, own.world.call('delete', `/api/v1/workspace/${workspace.id}`));

test('each of them is refused, whether the changes are replayed, are pruned, or all is built anew', async () => {
  const { sql } = own.world;
  await own.redis.comeBackAs('before');
  await allAreRefused('a replay, however its key changed since');

  await sql`update key_texts set replaced_at = replaced_at - interval '26 hours', valid_until = valid_until - 90000000
            where replaced_at is not null`;
  await eventually('the changes are pruned and the secrets removed', async () => {
    // What is left of the workspace makes more of them meanwhile.
    await sql`update changes set applied_at = now() - interval '25 hours', created_at = created_at - interval '25 hours'`;
    await removeExpired(sql, new AbortController().signal);
    const [{ left }] = await sql<[{ left: number }]>`
      select (select count(*) from changes)::int + (select count(*) from key_texts where replaced_at is not null)::int as left`;
    return left === 0;
  });
  await own.redis.comeBackAs('before');
  await allAreRefused('older than all changes that are kept');
  await own.redis.admin.flushall();
  await allAreRefused('emptied');
});

async function allAreRefused(what: string): Promise<void> {
  await everyShardIsOpen();
  for (const key of [rotated, graced, disabled, deleted, ofDeleted]) assert.is(await status(key), 'INVALID', what);
  assert.is(await status(untouched), 'VALID', what);
}

async function status({ key }: Key): Promise<string> {
  return (await must(200, own.customers.verify({ key }))).body.status;
}

async function rotate(key: Key, body?: object): Promise<void> {
  await must(200, own.world.call('post', `${pathOf(key)}/rotate`, body));
}

function pathOf({ id }: Key): string {
  return `/api/v1/workspace/${own.workspaceId}/api-key/${id}`;
}

function everyShardIsOpen(): Promise<void> {
  return untilOpen(own.redis, own.world.api.url, own.world.verify!.url);
}
