import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../tests/helpers/customers.ts';
import { eventually, makeWorld, outputListeners, type World } from '../../../tests/helpers/world.ts';

type Line = { requestId: string; status: number; notLogged?: number };

let world: World;
let lines: Line[] = [];
const test = suite('log of requests');
test.before(async () => {
  let rest = '';
  outputListeners.add((text) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop()!;
    const read = parts.filter((part) => part.includes('"msg":"request"')).map((part) => JSON.parse(part) as Line);
    lines.push(...read);
  });
  world = await makeWorld();
});
test.after(() => world?.stop());

test('strangers get one line a second, refused or answered, which counts those without one', async () => {
  const began = performance.now();
  const paths = { '/api/v1/workspace': 401, '/nowhere': 404, '/healthz': 200, '/openapi.json': 200, '/console': 200 };
  let sent = 0;
  const ask = async (requestId = '') => {
    sent += 1;
    const headers = { 'X-Request-Id': requestId || `stranger-${sent}` };
    const [path, expected] = Object.entries(paths)[sent % 5]!;
    const { status } = await world.call('get', path, undefined, { token: null, headers });
    assert.is(status, expected, path);
  };
  const ofStrangers = () => lines.filter(({ requestId }) => requestId.startsWith('stranger'));
  for (let i = 0; i < 200; i++) await ask();
  const logged = await eventually('a line counts those before it', async () => {
    await ask();
    const found = ofStrangers();
    return found.some(({ notLogged = 0 }) => notLogged > 0) ? found : undefined;
  });
  const seconds = (performance.now() - began) / 1_000;
  assert.ok(logged.length <= seconds + 1, `${logged.length} lines in ${seconds} s`);
  const numberOf = ({ requestId }: Line) => Number(requestId.slice('stranger-'.length));
  for (const [i, line] of logged.slice(1).entries())
    assert.is(line.notLogged ?? 0, numberOf(line) - numberOf(logged[i]!) - 1, 'each request is counted once');
});

test('a client with a known token has a line for each request, also for one that is refused', async () => {
  lines = [];
  const token = await world.newToken(world.team.id, ['workspace:read']);
  for (let i = 0; i < 20; i++) {
    const headers = { 'X-Request-Id': `client-${i}` };
    await must(
      i % 2 ? 403 : 200,
      world.call('get', i % 2 ? '/api/v1/audit-log' : '/api/v1/workspace', undefined, { token, headers }),
    );
  }
  await eventually('all have a line', async () => {
    const found = lines.filter(({ requestId }) => requestId.startsWith('client-'));
    return found.length === 20;
  });
});

test.run();
