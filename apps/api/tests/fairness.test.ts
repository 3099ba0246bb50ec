import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, PATIENT, type World } from '../../../tests/helpers/world.ts';
import { must } from '../../../tests/helpers/customers.ts';

const WRITES = 200;
const TRIES = 3;
let world: World;
const test = suite('fairness of the api');
test.before(async () => {
  world = await makeWorld(['api'], PATIENT);
});
test.after(() => world?.stop());

test('a single write overtakes 200 of another team, and one of another token of their team', async () => {
  const busy = await world.newTeam();
  const colleague = await world.newToken(busy.id, ['workspace:write']);
  const calm = await world.newTeam();
  const write = (token: string) => must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, { token }));
  for (const token of [busy.token, colleague, calm.token]) await write(token);

  let seen = [0, 0];
  // A busy machine may hold up a single one.
  for (let tries = 0; tries < TRIES && Math.min(...seen) <= WRITES / 4; tries++) {
    let unfinished = WRITES;
    const all = Array.from({ length: WRITES }, () => write(busy.token).then(() => (unfinished -= 1)));
    seen = await Promise.all([calm.token, colleague].map((token) => write(token).then(() => unfinished)));
    await Promise.all(all);
  }
  for (const [i, left] of seen.entries())
    assert.ok(left > WRITES / 4, `${['calm', 'colleague'][i]}: ${left} were left`);
});

test('what a team has waiting is bounded: more gets 429, and another team is answered meanwhile', async () => {
  const busy = await world.newTeam();
  const calm = await world.newTeam();
  const list = (path: string, token: string) => world.call('get', path, undefined, { token });
  for (const { token } of [busy, calm]) await must(200, list('/api/v1/quota', token));
  let calls: ReturnType<typeof list>[] = [];
  await world.sql.begin(async (tx) => {
    // Nothing that reads workspaces ends before this transaction.
    await tx`lock table workspaces in access exclusive mode`;
    calls = Array.from({ length: 530 }, () => list('/api/v1/workspace?limit=1', busy.token));
    const refused = await Promise.race(calls);
    assert.equal([refused.status, refused.body.error.code, refused.headers.get('retry-after')], [429, 42921, '1']);
    await must(200, list('/api/v1/quota', calm.token));
  });
  await Promise.all(calls);
});

test.run();
