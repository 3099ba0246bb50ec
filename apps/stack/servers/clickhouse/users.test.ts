import { existsSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

// Who reaches what on the ClickHouse of one machine.
const owner = process.env.TEST_CLICKHOUSE_URL!;
const database = `test_${process.env.TEST_SLOT}_users`;
const made = join(process.env.TEST_FOLDER ?? '', 'made-by-sql');

test.before(async () => {
  await done(owner, `create database if not exists ${database}`);
  await done(owner, `create table ${database}.rows (a UInt8) engine = ReplacingMergeTree order by a`);
  await done(owner, `insert into ${database}.rows values (1)`);
});

test('no statement reaches a file, another host, a program or a disk, whoever sends it', async () => {
  for (const url of [owner, process.env.TEST_API_CLICKHOUSE_URL!, process.env.TEST_CONSUMER_CLICKHOUSE_URL!])
    for (const statement of reaching) assert.not.match(await refusal(url, statement), 'it was done', statement);
  assert.not.ok(existsSync(made));
});

test('the user of the api reads and writes nothing, and that of the consumer adds rows and nothing else', async () => {
  const [api, consumer] = [process.env.TEST_API_CLICKHOUSE_URL!, process.env.TEST_CONSUMER_CLICKHOUSE_URL!];
  const insert = `insert into ${database}.rows values (2)`;
  const changing = ['alter table rows delete where 1', 'truncate table rows', 'drop table rows', 'optimize table rows']
    .map((statement) => statement.replace('rows', `${database}.rows`))
    .concat(`create table ${database}.other (a UInt8) engine = Memory`, 'create user somebody');
  for (const statement of [insert, ...changing])
    assert.match(await refusal(api, statement), /READONLY|ACCESS_DENIED/, statement);
  for (const statement of changing) assert.match(await refusal(consumer, statement), 'ACCESS_DENIED', statement);
  await done(consumer, insert);
  const count = await raw({ url: api, path: `/?query=${encodeURIComponent(`select count() from ${database}.rows`)}` });
  assert.equal(count, { status: 200, body: '2\n' });
});

test('a GET writes nothing, whatever its address says', async () => {
  const query = encodeURIComponent(`insert into ${database}.rows values (9)`);
  for (const settings of ['', '&readonly=0', '&readonly=1', '&readonly=2&readonly=0'])
    assert.match((await raw({ path: `/?query=${query}${settings}` })).body, 'READONLY', settings);
});

test('a web page reaches nothing, under whatever name it asks', async () => {
  const asked = { path: '/?query=select%201' };
  assert.is((await raw(asked)).status, 200);
  for (const headers of [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'same-origin' },
    { host: 'evil.example' },
    { host: '127.0.0.1.evil.example:80' },
    { host: 'localhost@evil.example' },
  ])
    for (const path of [asked.path, '/ping'])
      assert.is((await raw({ path, headers })).status, 403, JSON.stringify(headers));
});

const reaching = [
  "select * from file('/etc/passwd', 'LineAsString')",
  'select * from `/etc/passwd`',
  "select * from '/etc/passwd'",
  "select file('/etc/passwd')",
  "select `file`('/etc/passwd')",
  "select file /* x */ ('/etc/passwd')",
  "select file -- x\n ('/etc/passwd')",
  "select `fil\\x65`('/etc/passwd')",
  'select "fil\\x65"(\'/etc/passwd\')',
  "select $$'$$, file('/etc/passwd'), $$'$$",
  `insert into function file('${made}', 'LineAsString') select 'x'`,
  `select 1 into outfile '${made}'`,
  `select 1 into /* x */ outfile '${made}'`,
  `insert into ${database}.rows from infile '/etc/passwd' format CSV`,
  `create table ${database}.f (a String) engine = File('LineAsString', '/etc/passwd')`,
  `create table ${database}.u (a String) engine = URL('http://127.0.0.1:1/', 'LineAsString')`,
  `create table ${database}.d (a UInt8) engine = MergeTree order by a settings disk = disk(type = 'local', path = '${made}/')`,
  `create database ${database}_files engine = Filesystem('/etc')`,
  `create dictionary ${database}.x (a UInt8) primary key a source(file(path '/etc/passwd' format 'CSV')) layout(flat()) lifetime(1)`,
  "select * from url('http://127.0.0.1:1/', 'LineAsString')",
  "select * from s3('http://127.0.0.1:1/bucket/x', 'CSV')",
  "select * from remote('127.0.0.1:1', 'system', 'one')",
  "select * from mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
  "select * from postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
  "select * from sqlite('/etc/passwd', 'x')",
  "select * from hdfs('hdfs://127.0.0.1:1/x', 'CSV')",
  "select * from jdbc('x', 'y', 'z')",
  "select * from executable('id', 'LineAsString', 'a String')",
  "select * from fileCluster('default', '/etc/passwd', 'LineAsString')",
  `backup table ${database}.rows to File('${made}')`,
  'system shutdown',
  'create user somebody',
  "create function f as () -> file('/etc/passwd')",
];

async function refusal(url: string, statement: string): Promise<string> {
  const { status, body } = await raw({ url, statement });
  return status === 200 ? `it was done: ${body}` : body;
}

async function done(url: string, statement: string): Promise<void> {
  assert.match(await refusal(url, statement), 'it was done', statement);
}

/** A request as it stands: `fetch` sets some of its headers itself. */
type Asked = { url?: string; path?: string; headers?: object; statement?: string };
async function raw({ url = owner, path = '/', headers = {}, statement }: Asked) {
  const { hostname, port, username, password } = new URL(url);
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>();
  const method = statement === undefined ? 'GET' : 'POST';
  request({ hostname, port, method, path, headers: { ...headers }, auth: `${username}:${password}` }, (response) => {
    text(response).then((body) => resolve({ status: response.statusCode!, body }), reject);
  })
    .on('error', reject)
    .end(statement);
  return promise;
}
