import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { verifyInputOf } from './guard-options.ts';

const test = suite("a guard's options");
const routeOf = async (url: string) =>
  (await verifyInputOf('k', {}, {}, { method: 'GET', url, ip: undefined, header: () => undefined })).route;

test('a long route is cut at a "/", so that keytally never gets a part of a secret', async () => {
  const secret = 'key_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1';
  const start = `/${'a'.repeat(990)}/`;
  assert.is(await routeOf(`${start}${secret}/b`), `GET ${start}`);
  assert.is(await routeOf(`${start}b?${secret}`), `GET ${start}b`);
  assert.is((await routeOf(`/${'a'.repeat(1_019)}`))?.length, 1024);
  assert.is((await routeOf('a'.repeat(2_000)))?.length, 1024, 'no "/" to cut at');
});

test.run();
