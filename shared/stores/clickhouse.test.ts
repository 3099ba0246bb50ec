import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { wireTo } from '../../tests/helpers/wire.ts';
import { newId } from '../values/ids.ts';
import { booksUntil, connectClickHouse, inChunks, REQUEST_LIMITS } from './clickhouse.ts';

const books = connectClickHouse(process.env.TEST_CLICKHOUSE_URL!);
test.after(() => books.close());

test('a list of any length reaches ClickHouse in chunks that it takes, each value once and in order', async () => {
  const lists = {
    ids: Array.from({ length: 20_000 }, () => newId('bill')),
    'long texts that are all escaped': Array.from({ length: 7 }, (_, i) => "'\\\n"[i % 3]!.repeat(31_000)),
    'short texts': Array.from({ length: 60_000 }, (_, i) => (i % 3 === 0 ? '' : 'é')),
    none: [],
  };
  for (const [name, list] of Object.entries(lists)) {
    const chunks = inChunks(list);
    assert.equal(chunks.flat(), list, name);
    let arrived = 0;
    for (const values of chunks) {
      const query = 'select length({values:Array(String)})';
      const answer = await books.client.query({ query, query_params: { values }, format: 'JSONCompactEachRow' });
      arrived += Number((await answer.json<[string]>())[0]![0]);
    }
    assert.is(arrived, list.length, name);
  }
});

test('a query of a request ends with an error once it takes more memory or time than it may, and others go on', async () => {
  const limited = connectClickHouse(process.env.TEST_CLICKHOUSE_URL!, '', REQUEST_LIMITS);
  const run = async (query: string, clickhouse_settings = {}) =>
    (await limited.client.query({ query, clickhouse_settings, format: 'JSONCompactEachRow' })).json<[string]>();
  try {
    // 400 MB of numbers, of which nothing may go to disk.
    const tooLarge = await run('select length(groupArray(number)) from numbers(50000000)', {
      // A busy machine takes long for them.
      max_execution_time: 0,
    }).catch((error) => error);
    assert.is(tooLarge.code, '241', String(tooLarge));
    const tooLong = await run('select count() from system.numbers where rand() = 1', { max_execution_time: 1 }).catch(
      (error) => error,
    );
    assert.is(tooLong.code, '159', String(tooLong));
    const kept = await run("select getSetting('max_execution_time') + getSetting('max_threads')");
    assert.equal(kept, [[12]]);
  } finally {
    await limited.close();
  }
});

test('an answer that stops on its way ends with the request that it is for', async () => {
  const wire = await wireTo(process.env.TEST_CLICKHOUSE_URL!);
  const wired = connectClickHouse(wire.url, '', REQUEST_LIMITS);
  const over = new AbortController();
  try {
    const { client } = booksUntil(wired, over.signal);
    // 40 MB: more than is on its way at once.
    const answer = await client.query({ query: 'select number from numbers(2000000)', format: 'JSONEachRow' });
    wire.silence();
    const rows = answer.json().catch((error) => error);
    over.abort();
    assert.match(String(await rows), /ResultSet has been closed/);
  } finally {
    await wired.close();
    await wire.cut();
  }
});
