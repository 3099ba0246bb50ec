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

test('what is no address allows nothing but a list of all addresses', async () => {
  const addressOf = async (ip: string | undefined) =>
    (await verifyInputOf('k', {}, {}, { method: 'GET', url: '/', ip, header: () => undefined })).ip;
  for (const ip of ['203.0.113.9', '::1', '2001:DB8::1', '::ffff:203.0.113.9']) assert.is(await addressOf(ip), ip);
  for (const ip of [
    '::1]@[::1',
    '::1]:80/[',
    '::1]#',
    '[::1]',
    '::1%eth0',
    '::1\n',
    ' ::1',
    '1::2::3',
    '203.0.113.9:80',
    '203.0.113',
    ':',
    '',
    undefined,
  ]) {
    assert.is(await addressOf(ip), '0.0.0.0', String(ip));
  }
});

test.run();
