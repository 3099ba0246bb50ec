import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

test('a log line never shows headers, bodies, secrets or the query parameters of an error', () => {
  const script = `
    import { makeLogger } from './shared/runtime/log.ts';
    const log = makeLogger('test', 'trace');
    const error = Object.assign(new Error('failed'), { parameters: ['SECRET'], query: 'select SECRET', code: '23505' });
    const headers = { authorization: 'SECRET', 'x-api-key': 'SECRET', cookie: 'SECRET', 'idempotency-key': 'SECRET' };
    log.debug({ error: new Error('outer', { cause: error }), headers, request: { headers, body: { key: 'SECRET' } } }, 'shown');
    log.info({ key: 'SECRET', token: 'SECRET', jwt: 'SECRET', password: 'SECRET', body: 'SECRET', made: { token: 'SECRET' } }, 'shown');
  `;
  const written = execFileSync(process.execPath, ['--input-type=module-typescript', '-e', script], {
    encoding: 'utf8',
  });
  assert.is(written.match(/"shown"/g)?.length, 2);
  assert.match(written, '"code":"23505"');
  assert.not.ok(written.includes('SECRET'), written);
});

// Linux has a file whose disk is always full.
test('a program whose log is on a full disk goes on, ends when it wants to, and keeps no more than a few MB of lines', () => {
  const script = `
    import { makeLogger } from './shared/runtime/log.ts';
    const log = makeLogger('test', 'info');
    for (let i = 0; i < 300; i++) log.info({ text: 'x'.repeat(1_000_000) }, 'more');
    log.fatal('last');
    process.stderr.write(String(process.memoryUsage().rss >> 20));
    process.exit(3);`;
  const full = openSync('/dev/full', 'a');
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module-typescript', '-e', script], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  });
  closeSync(full);
  assert.is(status, 3, stderr);
  assert.ok(Number(stderr) < 200, stderr);
});
