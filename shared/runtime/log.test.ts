import { execFileSync } from 'node:child_process';
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
  const args = ['--input-type=module-typescript', '-e', script];
  const written = execFileSync(process.execPath, args, { encoding: 'utf8' });
  assert.is(written.match(/"shown"/g)?.length, 2);
  assert.match(written, '"code":"23505"');
  assert.not.ok(written.includes('SECRET'), written);
});
