// What a guard does when the program that uses it made a mistake, such as a wrong access token or a wrong cost.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, type Customers } from '../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';
import { fastifyGuard, honoGuard, keepUsage, keytally, koaGuard, nodeGuard, type Keytally } from './index.ts';
import { frameworks } from './helpers/frameworks.ts';

let world: World;
let client: Keytally;
let customers: Customers;
const errors: string[] = [];
const onError = (error: Error) => void errors.push(error.message);

const test = suite('mistakes in the use of a guard');
test.before(async () => {
  world = await makeWorld(['verify']);
  client = keytally({ url: world.verify!.url, token: world.team.token, verifyTimeoutMs: 20_000 });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(() => world.stop());
test.before.each(() => void (errors.length = 0));

for (const [name, start] of Object.entries(frameworks)) {
  test(`${name}: a cost function that gives something wrong refuses the request, never lets it pass for free`, async () => {
    const { key, meter } = await customers.meteredKey('100');
    for (const [cost, said] of [
      ['abc', 'cost is "abc"'],
      ['-1', 'cost is "-1"'],
      ['0.0000001', 'cost is "0.0000001"'],
      ['9000000001', 'cost is "9000000001"'],
      [undefined, 'cost is undefined (undefined)'],
      [null, 'cost is null (object)'],
      [1, 'cost is 1 (number)'],
      [{ usage: undefined }, 'cost is undefined (undefined)'],
    ] as const) {
      const app = await start(client, { costOf: () => cost as string, onError }, unreachable);
      await failed(app.url, key, `${said}; it must be decimal text such as "1" or "0.25"`);
      await app.stop();
    }
    assert.is((await customers.billing(meter)).usedCredits, '0');
  });

  test(`${name}: a wrong access token refuses the request, and onError names the cause`, async () => {
    const { key } = await customers.newKey();
    const wrong = keytally({ url: world.verify!.url, token: 'kt_nobody', verifyTimeoutMs: 20_000 });
    const app = await start(wrong, { costOf: () => '1', onError }, unreachable);
    await failed(app.url, key, 'keytally answered 40102: ');
    await app.stop();
  });

  test(`${name}: what the program's own function throws reaches the framework's error handling`, async () => {
    const costOf = () => {
      throw new Error('the price list is missing');
    };
    const app = await start(client, { costOf, onError }, unreachable);
    const answer = await fetch(`${app.url}/v1/`, { headers: { 'X-API-Key': 'key_x' } });
    assert.equal([answer.status, errors], [500, []]);
    await app.stop();
  });
}

test('a function that gives no scopes or no route refuses the request', async () => {
  const nothing = () => undefined as never;
  for (const [options, message] of [
    [{ scopes: nothing }, 'scopes is undefined (undefined); it must be a list such as'],
    [{ route: nothing }, 'route is undefined (undefined); it must be text'],
  ] as const) {
    const guard = nodeGuard(client, { ...options, onError });
    const request = { method: 'GET', url: '/', headers: { 'x-api-key': 'key_x' }, socket: {} };
    const response = { statusCode: 200, setHeader() {}, end() {} };
    await guard(request, response, unreachable);
    assert.is(response.statusCode, 500);
    assert.match(errors.pop()!, message);
  }
});

test('an option that is wrong from the start keeps the program from starting', () => {
  for (const [options, message] of [
    [{ cost: 'abc' }, /^cost is "abc"/],
    [{ cost: undefined }, /^cost is undefined/],
    [{ cost: { usage: 1 } }, /^cost is 1 \(number\)/],
    [{ scopes: undefined }, /^scopes is undefined/],
    [{ scopes: 'documents' }, /^scopes is "documents"/],
    [{ route: undefined }, /^route is undefined/],
  ] as const) {
    assert.throws(
      () => koaGuard(client, options as never),
      (error: Error) => message.test(error.message),
      String(message),
    );
  }
});

test('a misspelt option keeps the program from starting: a guard with `cots` would let every request pass for free', () => {
  const all = 'the options are cost, hold, scopes, route, ip, open, onError';
  const guards: ((client: Keytally, options: object) => unknown)[] = [nodeGuard, fastifyGuard, koaGuard, honoGuard];
  for (const guard of guards) {
    throws(() => guard(client, { cots: '0.25' }), `cots is not an option; ${all}`);
    throws(() => guard(client, { cost: '0.25', scope: undefined }), `scope is not an option; ${all}`);
    throws(() => guard(client, { toString: '1' }), `toString is not an option; ${all}`);
  }
  const kept = { onLost() {}, atmost: 1 };
  throws(
    () => keepUsage(client, kept),
    'keepUsage(): atmost is not an option; the options are onLost, atMost, pauseMs',
  );
});

test('without onError the cause is on the console, at most one line a second', async () => {
  const lines: string[] = [];
  const output = globalThis.console;
  const { error } = output;
  output.error = (line: string) => void lines.push(line);
  try {
    const nobody = keytally({ url: 'http://127.0.0.1:1', token: 'x', verifyTimeoutMs: 100 });
    const app = await frameworks.Koa!(nobody, { costOf: () => '1' }, unreachable);
    const began = performance.now();
    for (let i = 0; i < 3; i++) {
      const answer = await fetch(app.url, { headers: { 'X-API-Key': 'key_x' } });
      assert.is(answer.status, 503);
    }
    await app.stop();
    assert.ok(lines.length >= 1 && lines.length <= 1 + (performance.now() - began) / 1_000, lines.join('\n'));
    // On a busy machine even a refused connection may take longer than what is left for a last attempt.
    const cause = /keytally (cannot be reached at http:\/\/127\.0\.0\.1:1|did not answer in time)$/;
    assert.match(lines[0]!.replace(/^keytally guard, request \S+: /, ''), cause);
  } finally {
    output.error = error;
  }
});

test.run();

function throws(make: () => unknown, message: string): void {
  assert.throws(make, (error: Error) => error.message === message, message);
}

function unreachable(): never {
  throw new Error('the handler was reached');
}

// The end client learns nothing but the request id; onError gets the cause.
async function failed(url: string, key: string, cause: string): Promise<void> {
  const answer = await fetch(`${url}/v1/`, { headers: { 'X-API-Key': key } });
  const { error } = (await answer.json()) as { error: { code: number; requestId: string } };
  assert.equal([answer.status, error.code, answer.headers.get('x-request-id')], [500, 50001, error.requestId]);
  assert.is(errors.length, 1, errors.join('\n'));
  assert.ok(errors.pop()!.startsWith(`keytally guard, request ${error.requestId}: ${cause}`));
}
