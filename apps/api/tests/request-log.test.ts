import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../../tests/helpers/clock.ts';
import { startApiBy } from './helpers/own-api.ts';
import { column, joinWorld, must } from './helpers/calls.ts';

const clock = makeTestClock(Date.now());
const world = await joinWorld();
const api = await startApiBy(clock, world);

const requests = () => api.lines.splice(0).filter(({ msg }) => msg === 'request');

test('strangers get one line a second, refused or answered, which counts those without one', async () => {
  const ask = async () => {
    const paths = { '/api/v1/workspace': 401, '/nowhere': 404, '/healthz': 200, '/openapi.json': 200, '/console': 200 };
    for (const [path, status] of Object.entries(paths))
      await must(status, world.call('get', api.url + path, undefined, { token: null }));
  };
  requests();
  await clock.advance(1_001);
  await ask();
  await ask();
  await clock.advance(1_001);
  await ask();
  assert.equal(column(requests(), 'notLogged'), [undefined, 9]);
});

test('a client with a known token has a line for each request, also for one that is refused', async () => {
  const token = await world.newToken(world.team.id, ['workspace:read']);
  requests();
  for (const [path, status] of Object.entries({ workspace: 200, 'audit-log': 403 }))
    await must(status, world.call('get', `${api.url}/api/v1/${path}`, undefined, { token }));
  assert.equal(column(requests(), 'status'), [200, 403]);
});
