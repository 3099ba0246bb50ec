import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { formOf, forms, textIn } from './forms.ts';
import type { Row } from './rows.ts';

const NOW = Date.UTC(2026, 5, 15);

const hash = Buffer.alloc(32, 7);
const onePage = (next: string) =>
  `the file is one page of a list, and ${next} names the next; import each page as a file`;
// The text of a file, and what its records are: their places, and what is found there.
const files: [form: string, text: string, rows: string][] = [
  [
    'unkey',
    csv(
      'id,hash,start,name,owner_id,meta,expires,enabled,remaining_requests,ratelimit_limit,ratelimit_duration',
      `k,${hash.toString('base64')},acme_3Z,n,c,"{""plan"":""pro, yearly""}",2099-01-02 03:04:05.678,0,100,7,1000`,
      'k,h,3Z,,\\N,null,NULL,,,7,300000',
      'k,h,3Z,,,,,,,7,61000',
    ),
    `line 2: { item: { name: n, hash: { algorithm: sha256, encoding: base64, value: ${hash.toString('base64')} }, prefix: acme,
       customerId: c, expiresAt: ${Date.UTC(2099, 0, 2, 3, 4, 5, 678)}, metadata: { plan: 'pro, yearly' }, rateLimitPerSecond: 7,
       enabled: false }, id: k, budget: { fields: [remaining_requests], billing: { credits: '100' } } }
     line 3: { item: { name: 3Z, hash: { algorithm: sha256, encoding: base64, value: h }, enabled: true,
       limits: [{ name: ratelimit_limit, unit: requests, limit: 7, per: 5 minutes }] }, id: k }
     line 4: { item: { name: 3Z, hash: { algorithm: sha256, encoding: base64, value: h }, enabled: true }, id: k,
       lost: [ratelimit_limit] }`,
  ],
  [
    'unkey',
    json(`{ migrationId: m, keys: [
       { hash: h, name: n, externalId: c, roles: [r], credits: { remaining: 5, refill: { interval: monthly, amount: 100,
         refillDay: 31 } }, ratelimits: [{ name: calls, limit: 9, duration: 1000 }] },
       { plaintext: p, remaining: 7, refill: { interval: daily, amount: 10 } }] }`),
    `entry 1: { item: { name: n, hash: { algorithm: sha256, encoding: base64, value: h }, customerId: c, rateLimitPerSecond: 9,
       enabled: true }, budget: { fields: [remaining_requests, refill_amount], billing: { credits: '5',
       expiresAt: ${Date.UTC(2026, 5, 30)}, schedule: { credits: '100', every: month, anchorAt: ${Date.UTC(2026, 5, 30)} } } },
       lost: [roles] }
     entry 2: { item: { name: Unkey key, key: p, enabled: true }, budget: { fields: [remaining_requests, refill_amount],
       billing: { credits: '7', expiresAt: ${Date.UTC(2026, 5, 16)},
       schedule: { credits: '10', every: day, anchorAt: ${Date.UTC(2026, 5, 16)} } } } }`,
  ],
  [
    'litellm',
    csv(
      'token,key_alias,user_id,team_id,metadata,blocked,models,rpm_limit,max_budget,permissions',
      `${hash.toString('hex')},a,u,t,{},t,{},60,1,x`,
      'sk-1,a,,t,"{""a"":1}",f,[],,,{}',
    ),
    `line 2: { item: { name: a, hash: { algorithm: sha256, encoding: hex, value: '${hash.toString('hex')}' }, customerId: u,
       metadata: { team_id: t }, limits: [{ name: rpm_limit, unit: requests, limit: 60, per: minute }], enabled: false },
       budget: { fields: [max_budget], billing: { credits: '1' } }, lost: [permissions] }
     line 3: { item: { name: a, key: sk-1, customerId: t, metadata: { a: 1, team_id: t }, enabled: true } }`,
  ],
  [
    'litellm',
    json(`{ current_page: 1, total_pages: 2, keys: [
       { token: sk-1, key_alias: a, metadata: null, expires: infinity, max_budget: 334, spend: 1.0000021e2, budget_duration: 30d,
         budget_reset_at: '2026-07-01T00:00:00Z' },
       { token: sk-2, max_budget: 0.1, budget_duration: 1h, models: [gpt] },
       { token: sk-3, max_budget: 5, budget_id: b, spend: 9 }] }`),
    `entry 1: { item: { name: a, key: sk-1, enabled: true }, budget: { fields: [max_budget, budget_duration],
       billing: { credits: '233.99979', expiresAt: ${Date.UTC(2026, 6, 1)},
       schedule: { credits: '334', every: month, anchorAt: ${Date.UTC(2026, 6, 1)} } } } }
     entry 2: { item: { name: LiteLLM key, key: sk-2, enabled: true }, budget: { fields: [max_budget, budget_duration] },
       lost: [models] }
     entry 3: { item: { name: LiteLLM key, key: sk-3, enabled: true },
       budget: { fields: [max_budget], billing: { credits: '0' }, without: [budget_id] } }
     the document: { refused: '${onePage('total_pages')}' }`,
  ],
  [
    'kong',
    json(`{ services: [{ name: s }], consumers: [{ username: u, acls: [{ group: g }], tags: [gold],
       plugins: [{ name: rate-limiting, config: { second: 5, minute: 60, month: 1000, year: 5000, hour: null, policy: local } },
         { name: cors }],
       keyauth_credentials: [{ key: k1, tags: ['a "quoted" {tag}'] }, { key: k2, ttl: 9 }] }] }`),
    `entry 2: { item: { name: u, key: k1, customerId: u, metadata: { tags: ['a "quoted" {tag}'] }, rateLimitPerSecond: 5,
       limits: &limits [{ name: rate-limiting minute, unit: requests, limit: 60, per: minute },
       { name: rate-limiting month, unit: requests, limit: 1000, per: month },
       { name: rate-limiting year, unit: requests, limit: 5000, per: year }] },
       lost: [plugin cors, 'plugin rate-limiting: of all keys together, now of each', acls, tags] }
     entry 2 again: { item: { name: u, key: k2, customerId: u, rateLimitPerSecond: 5, limits: *limits }, lost: [ttl] }`,
  ],
  [
    'kong',
    `_format_version: "3.0"
consumers:
- username: u
  keyauth_credentials:
  - key: k
- username: none
  basicauth_credentials:
  - username: b
`,
    `entry 1: { item: { name: u, key: k, customerId: u } }
     entry 2: { aside: true, lost: [basicauth_credentials] }`,
  ],
  [
    'kong',
    json(`{ keyauth_credentials: [{ id: c1, key: k1, consumer: { id: early } }],
       consumers: [{ id: early, username: e }, { id: late, username: l, custom_id: cus }], acls: [{ group: g, consumer: { id: early } }] }`),
    `entry 1: { item: { name: e, key: k1, customerId: e }, id: c1 }
     entry 4: { aside: true, lost: [acls] }`,
  ],
  [
    'kong',
    json(
      `{ consumers: [{ username: u, keyauth_credentials: [null, { key: k }] }, { keyauth_credentials: [{ key: k }], plugins: [cors] }] }`,
    ),
    `entry 1: { refused: a credential is no JSON object }
     entry 1 again: { item: { name: u, key: k, customerId: u } }
     entry 2: { refused: a plugin is no JSON object }`,
  ],
  [
    'kong',
    JSON.stringify({ data: [{ key: 'k', consumer: { id: 'i' } }], next: '/key-auths?offset=abc', offset: 'abc' }),
    `entry 1: { item: { name: Kong key, key: k, customerId: i } }
     the document: { refused: '${onePage('next')}' }`,
  ],
  [
    'api-gateway',
    json(
      `{ items: [{ value: k, name: n, tags: { a: b }, enabled: false, stageKeys: [s] }, { id: i, name: n }], NextToken: more }`,
    ),
    `entry 1: { item: { name: n, key: k, metadata: { a: b }, enabled: false }, lost: [stageKeys] }
     entry 2: { refused: 'it has no value: export again with --include-values' }
     the document: { refused: '${onePage('NextToken')}' }`,
  ],
  [
    'api-gateway',
    csv('Name,key,description,Enabled,usageplanIds', 'n,k,d,FALSE,"p1,p2"'),
    `line 2: { item: { name: n, key: k, metadata: { description: d }, enabled: false }, lost: [usageplanids] }`,
  ],
  ['keys', '{"name": "n", "key": "k"}\r\n', `line 1: { item: { name: n, key: k } }`],
];

test('each form gives the keys of its file, with all that keytally has a place for, and names what it has none for', () => {
  for (const [form, text, rows] of files) {
    const wanted = Object.entries(parse(rows.replaceAll(/^ {5}/gm, '')) as Record<string, object>);
    assert.equal(
      rowsIn(form, text),
      wanted.map(([place, row]) => ({ place: place.replace(' again', ''), lost: [], ...row })),
      form,
    );
  }
});

test('a key is enabled or not by a word for it, and refused for any other', () => {
  const words = ['TRUE', 'yes', 'f', '0', 'maybe', '2'];
  for (const [form, head, ...enabled] of [
    ['unkey', 'key,enabled', true, true, false, false],
    ['litellm', 'token,blocked', false, false, true, true],
  ] as const) {
    const rows = rowsIn(form, csv(head, ...words.map((word) => `sk-1,${word}`)));
    const found = rows.slice(0, 4).map((row) => itemOf(row)['enabled']);
    assert.equal(found, enabled);
    for (const row of rows.slice(4)) assert.match(refusalOf(row), /neither true nor false/);
  }
});

test('keys that are deleted or have expired are left out, and one that expires later is not', () => {
  const rows = rowsIn('unkey', csv('key,expires,deleted_at', `k,${NOW},`, `k,${NOW + 1},`, 'k,,2020-01-01'));
  const found = rows.map((row) => ('skipped' in row ? row.skipped : 'read'));
  assert.equal(found, ['it has expired', 'read', 'it is deleted']);
});

test('a time is read in the forms of ISO 8601 and Unix alone; a key with any other is refused, never skipped as expired', () => {
  const at = Date.UTC(2099, 0, 2, 3, 4, 5);
  const good = {
    '2099-01-02T03:04:05Z': at,
    '2099-01-02t03:04:05.678z': at + 678,
    '2099-01-02 03:04:05.678901+00': at + 678,
    '2099-01-02T08:34:05+0530': at,
    '2099-01-01T22:04:05-05:00': at,
    '2099-01-02T03:04Z': at - 5_000,
    '2099-01-02': at - 11_045_000,
    [String(at / 1_000)]: at,
    [String(at)]: at,
  };
  const wrong = ['01/02/2099', '-1', '0', '2099', '20990102', '2099-02-30', '2099-13-01', '2099-1-2', 'Jan 2 2099'];
  wrong.push('2099-01-02T25:00Z', '2099-01-02T03:04:05+99:00', '0000-00-00 00:00:00', `${at}000`);
  const rows = rowsIn('unkey', csv('key,expires', ...[...Object.keys(good), ...wrong].map((time) => `k,${time}`)));
  const read = rows.splice(0, Object.keys(good).length);
  const found = read.map((row) => itemOf(row)['expiresAt']);
  assert.equal(found, Object.values(good));
  for (const row of rows) assert.match(refusalOf(row), /is no time such as/);
});

test('an amount becomes credits by its digits, rounded down to six decimals', () => {
  const amounts = {
    '8999999999.999999': '8999999999.999999',
    '0.9999999': '0.999999',
    '1e30': '1000000000000000000000000000000',
    '2.1e-05': '0.000021',
  };
  const rows = rowsIn('litellm', csv('token,max_budget', ...Object.keys(amounts).map((amount) => `sk-1,${amount}`)));
  const found = rows.map((row) => 'budget' in row && row.budget?.billing?.['credits']);
  assert.equal(found, Object.values(amounts));
});

test('a name that is too long ends in a whole character', () => {
  const [row] = rowsIn('unkey', csv('key,name', `k,${'\u{1f600}'.repeat(200)}`));
  assert.is(itemOf(row!).name, '\u{1f600}'.repeat(64));
});

test('what is wrong with a record refuses it by its line, without its text, and no other one', () => {
  for (const [form, text, ...told] of [
    [
      'keys',
      ['{"key":"k"}', 'sk-secret', '["sk-secret"]', '', '{"key":"sk-secret', '{"key":"k"}'].join('\r\n'),
      'read',
      'line 2: it is no JSON object',
      'line 3: it is no JSON object',
      'line 5: it is no JSON object',
      'read',
    ],
    [
      'unkey',
      csv(
        'key,name,meta',
        'k,"a ""name"",\r\nof two lines",',
        ...'k,n|k,n,,|k,"n"n,|k,n,sk-secret||k,n,|k,"n'.split('|'),
      ),
      'read',
      'line 4: it has 2 fields, and the first line names 3',
      'line 5: it has 4 fields, and the first line names 3',
      'line 6: it has text behind the quotes of a field',
      'line 7: meta is no JSON object',
      'read',
      'line 10: the file ends within its quotes',
    ],
  ] as const) {
    const rows = rowsIn(form, text);
    const found = rows.map((row) => ('refused' in row ? `${row.place}: ${row.refused}` : 'read'));
    assert.equal(found, told);
  }
});

test('a file that can not be read is refused as a whole; so is a table whose columns nobody knows', () => {
  for (const [form, text, told] of [
    ['keys', Buffer.from('{"key":"k"}\n{"key":"M\u00fc"}', 'latin1'), /^the file is not UTF-8/],
    ['keys', Buffer.from('\uFEFF{"key":"k"}', 'utf16le'), /^the file is not UTF-8/],
    ['kong', '{"data": [{"key": "k"}, {"key": "k', /no whole JSON document$/],
    ['kong', 'a: "sk-secret', /^the file is neither JSON nor YAML$/],
    ['kong', '{"consumers": {"u": {}}}', /^consumers is no list$/],
    ['kong', 'sk-secret', /^the file is no JSON object$/],
    ['unkey', csv('a-key,n', 'another,n'), /^line 1 must name the columns, and one of /],
    ['litellm', csv('a-key,n'), /^line 1 must name the columns, and one of /],
    ['unkey', csv('key,name,meta,meta', 'k,n,{},{}'), /^line 1 names the column meta twice$/],
  ] as const)
    assert.throws(() => [...forms[form]!(textIn(Buffer.from(text as string)), NOW)], told);
});

test('a byte order mark hides neither the first column of a table nor the first line', () => {
  const [row] = rowsIn('unkey', '\uFEFF"enabled","key"\n0,k\n');
  assert.is(itemOf(row!)['enabled'], false);
  assert.is(itemOf(rowsIn('keys', '\uFEFF{"key":"k"}')[0]!)['key'], 'k');
});

test('the name of a file begins with its form', () => {
  assert.equal(['unkey.csv', 'kong-2.json', 'export.csv'].map(formOf), ['unkey', 'kong', undefined]);
});

function json(yaml: string): string {
  return JSON.stringify(parse(yaml));
}

function csv(...lines: string[]): string {
  return `${lines.join('\r\n')}\r\n`;
}

function rowsIn(form: string, text: string): Row[] {
  return [...forms[form]!(textIn(Buffer.from(text)), NOW)];
}

function itemOf(row: Row) {
  if ('item' in row) return row.item;
  throw new Error(JSON.stringify(row));
}

function refusalOf(row: Row): string {
  return 'refused' in row ? row.refused : JSON.stringify(row);
}
