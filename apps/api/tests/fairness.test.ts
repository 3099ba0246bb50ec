import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, type World } from '../../../tests/helpers/world.ts';
import { must } from '../../../tests/helpers/customers.ts';

const WRITES = 200;
let world: World;
const test = suite('fairness of the api');
test.before(async () => {
  world = await makeWorld(['api']);
});
test.after(() => world?.stop());

test('a single write overtakes 200 of another team, and one of another token of their team', async () => {
  const busy = await world.newTeam();
  const colleague = await world.newToken(busy.id, ['workspace:write']);
  const calm = await world.newTeam();
  const write = (token: string) => must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, { token }));
  for (const token of [busy.token, colleague, calm.token]) await write(token);

  let unfinished = WRITES;
  const all = Array.from({ length: WRITES }, () => write(busy.token).then(() => (unfinished -= 1)));
  const seen = await Promise.all([calm.token, colleague].map((token) => write(token).then(() => unfinished)));
  await Promise.all(all);
  for (const [i, left] of seen.entries())
    assert.ok(left > WRITES / 4, `${['calm', 'colleague'][i]}: ${left} were left`);
});

test.run();
