import { connect } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { makeCustomers } from '../../../tests/helpers/customers.ts';
import { eventually, spawnWorld, request } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// What strangers may ask a server for beside the hot path, and on which port it is.
const BUNDLE = '/docs/swagger-ui-bundle.js';
const servers = () => [world.api, world.verify!];
const world = await spawnWorld(['verify']);
const { body } = await world.call('post', '/api/v1/workspace', { name: 'beside' });
const customers = makeCustomers(world, body.workspace.id);

test('documents are sent compressed to whoever takes that, and not again to whoever has them', async () => {
  for (const { url } of servers()) {
    for (const path of [BUNDLE, '/docs', '/docs/start.js', '/docs/swagger-ui.css', '/openapi.json']) {
      const plain = await raw(url, path, 'Accept-Encoding: gzip;q=0, br\r\n');
      const packed = await raw(url, path, 'Accept-Encoding: br, gzip\r\n');
      assert.is(plain.headers.get('content-encoding'), undefined, path);
      assert.is(packed.headers.get('content-encoding'), 'gzip', path);
      assert.ok(plain.body.equals(gunzipSync(packed.body)), path);
      assert.is(packed.headers.get('content-length'), String(packed.body.length));
      for (const one of [plain, packed]) {
        assert.match(one.headers.get('vary') ?? '', 'Accept-Encoding');
        const etag = one.headers.get('etag') ?? '';
        assert.match(etag, /^"[\w-]{20,}"$/, path);
        for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
          const accept = one === packed ? 'Accept-Encoding: gzip\r\n' : '';
          const again = await raw(url, path, `${accept}If-None-Match: ${known}\r\n`);
          assert.equal([again.status, again.body.length], [304, 0], `${path} ${known}`);
          assert.is(again.headers.get('etag'), etag);
        }
      }
      assert.is.not(plain.headers.get('etag'), packed.headers.get('etag'), 'other bytes, another tag');
      assert.is((await raw(url, path, 'If-None-Match: "other"\r\n')).status, 200);
    }
  }
});

test('with OPS_PORT, clients of the hot port reach /healthz alone of the probes, and OPS_PORT serves nothing else', async () => {
  for (const program of ['api', 'verify'] as const) {
    const [ops = 0] = await freePorts(1);
    const server = await world.start(program, { OPS_PORT: String(ops) });
    const url = `http://127.0.0.1:${ops}`;
    const ready = async () => (await fetch(`${url}/readyz`)).status === 200;
    await eventually('it is ready', ready);
    const hidden = ['/metrics', '/readyz', '/servingz'];
    const status = async (path: string) => (await request(server.url + path, 'get', {})).status;
    assert.equal(await Promise.all(hidden.map(status)), [404, 404, 404], program);
    assert.is(await status('/healthz'), 200);
    const docs = await Promise.all(['/docs', BUNDLE, '/openapi.json'].map((path) => fetch(server.url + path)));
    const expected = program === 'api' ? 200 : 404;
    assert.equal(
      docs.map((answer) => answer.status),
      [expected, expected, expected],
      program,
    );
    assert.match(await (await fetch(`${url}/metrics`)).text(), new RegExp(`program="${program}"`));
    assert.is((await fetch(`${url}/healthz`)).status, 200);
    for (const path of ['/docs', '/openapi.json', VERIFY_PATH, '/api/v1/workspace']) {
      assert.is((await fetch(url + path)).status, 404, path);
    }
    assert.is((await fetch(url + VERIFY_PATH, { method: 'POST' })).status, 404);
    await server.stop();
  }
});

test('with OPS_PORT and several workers one scrape has the sum of all of them', async () => {
  const [port = 0, ops = 0] = await freePorts(2);
  const settings = { WORKERS: '2', PORT: String(port), OPS_PORT: String(ops) };
  const server = await world.start('verify', settings);
  const total = async () => {
    const answer = await fetch(`http://127.0.0.1:${ops}/metrics`, { headers: { Connection: 'close' } });
    return Number(/^keytally_verifications_total\{[^}]*status="VALID"[^}]*\} (\d+)$/m.exec(await answer.text())?.[1]);
  };
  const { key } = await customers.newKey();
  await Promise.all(Array.from({ length: 50 }, () => customers.verify({ key }, { url: server.url })));
  await eventually('all are counted', async () => (await total()) === 50);
  for (let i = 0; i < 5; i++) assert.is(await total(), 50);
  await server.stop();
});

/** One answer as its bytes came, without a client that unpacks it. */
function raw(url: string, path: string, headers: string) {
  return new Promise<{ status: number; headers: Map<string, string>; body: Buffer }>((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\n`);
    });
    socket.once('error', reject).on('data', (bytes: Buffer) => chunks.push(bytes));
    socket.once('end', () => {
      const bytes = Buffer.concat(chunks);
      const end = bytes.indexOf('\r\n\r\n');
      const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
      const named = lines.map((line): [string, string] => {
        const colon = line.indexOf(': ');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 2)];
      });
      resolve({ status: Number(first.slice(9, 12)), headers: new Map(named), body: bytes.subarray(end + 4) });
    });
  });
}
