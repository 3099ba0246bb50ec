import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ApiError } from '../../../shared/contract/errors.ts';
import { makeSessionCookies } from './session-cookie.ts';

const SECRET = 's'.repeat(43);
const own = { 'sec-fetch-site': 'same-origin' };
const ours = { 'x-keytally-session': '1' };

/** What a request with a cookie counts for: its secret, nothing, or the name of a refusal. */
function read(overTls: boolean, method: string, headers: Record<string, string>): string | undefined {
  const given = { cookie: `${overTls ? '__Host-' : ''}keytally=${SECRET}`, host: 'api.example.com', ...headers };
  try {
    return makeSessionCookies(overTls, 'keytally').read(method, (name) => given[name as keyof typeof given]);
  } catch (error) {
    return (error as ApiError).errorName;
  }
}

test('a cookie counts for pages of its own origin alone, a change only with the header of our page, and never beside Authorization', () => {
  const elsewhere = 'session_elsewhere';
  for (const [method, headers, expected, overTls = true] of [
    ['GET', own, SECRET],
    ['GET', ours, SECRET],
    ['GET', {}, elsewhere],
    ['GET', { origin: 'https://api.example.com' }, SECRET],
    ['GET', { origin: 'http://api.example.com' }, elsewhere],
    ['GET', { origin: 'http://api.example.com' }, SECRET, false],
    ['POST', { ...own, ...ours }, SECRET],
    ['POST', own, 'session_unmarked'],
    ['DELETE', { ...own, 'x-keytally-session': 'true' }, 'session_unmarked'],
    ...['cross-site', 'none', 'same-site'].map(
      (site) => ['GET', { ...ours, 'sec-fetch-site': site }, elsewhere] as const,
    ),
    ...['null', 'https://app.example.com', 'https://api.example.com:8443'].map(
      (origin) => ['POST', { ...ours, origin }, elsewhere] as const,
    ),
    ...['', 'Bearer', 'Basic YTpi'].map((authorization) => ['GET', { ...own, authorization }, undefined] as const),
    ['GET', { ...own, cookie: `keytally=${SECRET}` }, undefined],
    ['GET', { ...own, cookie: `keytally-portal=${SECRET}` }, undefined],
  ] as const)
    assert.is(read(overTls, method, headers), expected, `${method} ${JSON.stringify(headers)}`);
});
