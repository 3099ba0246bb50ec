import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { windowAt } from '../../../shared/values/calendar.ts';
import { makeCustomers, must } from '../../../tests/helpers/customers.ts';
import { dayWithRoom } from '../../../tests/helpers/day-with-room.ts';
import { makeWorld, type World } from '../../../tests/helpers/world.ts';

const TIMEZONE = 'Asia/Kathmandu';
let world: World;

const test = suite('limits over windows at a gateway');
test.before(async () => {
  await dayWithRoom(TIMEZONE);
  world = await makeWorld(['verify']);
});
test.after(() => world?.stop());

test('headers tell the window of the tightest limit, and when to come again after it refused', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  const limits = [{ name: 'daily', unit: 'requests', limit: 1, per: 'day', timezone: TIMEZONE }];
  const { key } = await makeCustomers(world, workspace.id).newKey({ rateLimitPerSecond: 100, limits });
  const ask = () =>
    fetch(`${world.verify!.url}/gateway/nginx/-/docs`, {
      headers: { 'X-Keytally-Token': world.team.token, 'X-Api-Key': key },
    });
  const [passed, refused] = [await ask(), await ask()];
  assert.equal([passed.status, refused.status], [200, 403]);
  const seconds = (windowAt('day', TIMEZONE, Date.now()).endMs - Date.now()) / 1000;
  for (const { headers } of [passed, refused]) {
    assert.is(headers.get('ratelimit-policy'), '"key";q=1;w=86400');
    assert.is(headers.get('x-ratelimit-limit'), '1');
    assert.is(headers.get('x-ratelimit-remaining'), '0');
    const [, rest] = /^"key";r=0;t=(\d+)$/.exec(headers.get('ratelimit')!)!;
    assert.ok(Math.abs(Number(rest) - seconds) < 60, rest);
  }
  assert.ok(Math.abs(Number(refused.headers.get('retry-after')) - seconds) < 60);
});

test.run();
