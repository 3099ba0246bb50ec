import { readdirSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld } from '../../../tests/helpers/world.ts';

const world = await makeWorld(['api'], {
  OIDC_ISSUER: 'https://login.example',
  OIDC_CLIENT_ID: 'keytally',
  OIDC_GROUPS: 'admins=*',
  PUBLIC_API_URL: 'https://keytally.example',
});
const strict = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

const get = (path: string, headers: Record<string, string> = {}) =>
  world.call('get', path, undefined, { token: null, headers });
const assetsOf = (html: string) => [...html.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, path]) => path!);

test('every path of the console, and the portal, is one page, which may run its own scripts alone, speak with us alone, and not be framed', async () => {
  const page = await get('/console');
  const pages = '/console/ /console/sessions /console/w/ws_1/keys /console/w/..%2f..%2fetc/passwd /portal';
  for (const path of pages.split(' ')) assert.is((await get(path)).text, page.text, path);
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/);
  for (const path of ['/console', '/portal', ...assetsOf(page.text)]) {
    const { headers } = await get(path);
    for (const [name, value] of Object.entries(strict)) assert.is(headers.get(name), value, path);
  }
  assert.match(page.text, '<body data-provider="login.example">');
  assert.not.match(page.text, /<style|style=|<script(?! type="module" (?:async )?src=)| on\w+=/);
});

test('the page is asked for each time, and its files, whose names have a hash, are kept for good', async () => {
  const page = await get('/console');
  assert.match(page.headers.get('cache-control') ?? '', /no-store|no-cache/);
  const assets = assetsOf(page.text);
  const built = readdirSync(new URL('../../console/dist/assets', import.meta.url));
  const named = built.filter((name) => name !== 'licences.txt').map((name) => `/console/assets/${name}`);
  assert.equal(assets.toSorted(), named.toSorted());
  for (const path of assets) {
    assert.match(path, /-[A-Z0-9]{8}\.(js|css)$/);
    const answer = await get(path);
    assert.is(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    const known = await get(path, { 'If-None-Match': answer.headers.get('etag')! });
    assert.equal([known.status, known.text], [304, '']);
  }
  assert.is((await get('/console/assets/licences.txt')).status, 200);
});

test('what is not a file of the console, and another method, is refused', async () => {
  const none = '/console/assets/ /console/assets/x.js /console/assets/%2e%2e%2fpackage.json /consolexyz';
  for (const path of none.split(' ')) assert.is((await get(path)).status, 404, path);
  const posted = await world.call('post', '/console', {}, { token: null });
  assert.equal([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD']);
});

test('all of the console is at most 80 kB, compressed', async () => {
  const page = await get('/console');
  let bytes = 0;
  for (const path of ['/console', ...assetsOf(page.text)]) {
    const response = await fetch(world.api.url + path, { headers: { 'Accept-Encoding': 'gzip' } });
    assert.is(response.headers.get('content-encoding'), 'gzip', path);
    bytes += Number(response.headers.get('content-length'));
  }
  assert.ok(bytes > 20_000 && bytes <= 80_000, `${bytes} bytes`);
});
