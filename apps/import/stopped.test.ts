import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json, text } from 'node:stream/consumers';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

const test = suite('an import that is stopped');

test('ends although keytally has become unavailable, and says where to go on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'keytally-import-'));
  const from = join(folder, 'keys.ndjson');
  writeFileSync(from, Array.from({ length: 150 }, (_, i) => JSON.stringify({ name: 'n', key: `key ${i}` })).join('\n'));
  let answered = 0;
  const unavailable = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const { keys } = body as { keys: unknown[] };
      answered += 1;
      if (answered === 1) return response.end(JSON.stringify({ results: keys.map(() => ({ result: 'imported' })) }));
      unavailable.resolve();
      return response.writeHead(503, { 'Retry-After': '60' }).end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const env = { ...process.env, KEYTALLY_API_URL: `http://127.0.0.1:${port}`, KEYTALLY_TOKEN: 'token' };
  const command = ['apps/import/main.ts', '--from', from, '--at-once', '1'];
  const child = spawn(process.execPath, command, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  await unavailable.promise;
  child.kill('SIGINT');
  const [out, err, [code]] = await ended;
  server.close();
  rmSync(folder, { recursive: true });
  assert.is(code, 1);
  assert.match(err, /stopped; go on with --skip 100\n$/);
  assert.match(out, /^100 keys read: 100 imported/);
  assert.is(answered, 2);
});

test.run();
