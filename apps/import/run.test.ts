import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkKeys } from './check.ts';
import type { Item, Row } from './rows.ts';
import { run } from './run.ts';
import type { Result } from './send.ts';
import { makeTally } from './tally.ts';

test('keys go in requests of at most 100 keys and 60,000 bytes, and one that fits in none is refused', async () => {
  const rows = [...rowsOf(250), row(250, 'x'.repeat(59_000)), row(251, 'x'.repeat(61_000)), row(252)];
  const { sent, lines } = await imported(rows);
  const found = sent.map((items) => items.length);
  assert.equal(found, [100, 100, 50, 1, 1]);
  assert.ok(sent.every((items) => items.every((item) => item['workspaceId'] === 'ws')));
  assert.equal(lines, [
    '253 keys read: 252 imported, 0 imported before, 1 refused',
    'refused, because it takes more than 60000 bytes: 1 (line 251)',
  ]);
});

test('a run goes on where an earlier one ended: after a failure or a stop', async () => {
  const failing = await imported(rowsOf(2_000), { send: (request) => (request === 2 ? fail('full') : undefined) });
  assert.equal([failing.failure, failing.doneTo], ['full', 200]);
  assert.ok(failing.sent.length < 10, 'it begins no further batch');
  const rest = await imported(rowsOf(300), { skip: 200 });
  assert.equal([rest.sent.length, rest.sent[0]![0]!.name, rest.doneTo], [1, 'n200', 300]);
  const stop = new AbortController();
  const stopped = await imported(rowsOf(300), {
    signal: stop.signal,
    send(request) {
      if (request === 0) return;
      stop.abort();
      stop.signal.throwIfAborted();
    },
  });
  assert.equal([stopped.failure, stopped.doneTo, stopped.sent.length], [undefined, 100, 3]);
});

test('what was refused is told by its kind and first places, and each alone in the report; what was deleted counts as refused', async () => {
  const answers: Result[] = [
    { result: 'imported' },
    { result: 'existing' },
    { result: 'existing', apiKey: { deleted: true } },
    ...Array.from({ length: 6 }, () => ({ error: { code: 40001, message: 'wrong' } })),
  ];
  const more: Row[] = [
    { place: 'line 10', lost: [], refused: 'it is no JSON' },
    { place: 'line 11', lost: [], skipped: 'it is deleted' },
    { ...row(12), lost: ['ttl'] },
    { place: 'entry 13', lost: ['acls'], aside: true },
  ];
  const { lines, report } = await imported([...rowsOf(9), ...more], { answers });
  assert.equal(lines, [
    '12 keys read: 2 imported, 1 imported before, 8 refused',
    'refused, because it was imported before and is deleted: --restore brings it back: 1 (line 2)',
    'refused, error 40001: wrong: 6 (line 3, line 4, line 5, line 6, line 7, …)',
    'refused, because it is no JSON: 1 (line 10)',
    'skipped, because it is deleted: 1 (line 11)',
    'not carried over: ttl: 1 (line 12)',
    'not carried over: acls: 1 (entry 13)',
  ]);
  assert.equal(report[0], {
    place: 'line 2',
    name: 'n2',
    refused: 'it was imported before and is deleted: --restore brings it back',
  });
  assert.equal(report[1], { place: 'line 3', name: 'n3', code: 40001, message: 'wrong' });
  assert.is(report.length, 9);
});

test('a dry run says of secrets what keytally would', () => {
  const [hex, base64] = [Buffer.alloc(32, 1).toString('hex'), Buffer.alloc(32, 1).toString('base64')];
  const hash = (encoding: string, value: string) => ({ hash: { algorithm: 'sha256', encoding, value } });
  const good = [
    { key: 'a-foreign-key', allowWeak: true },
    { key: 'sk-3xVq9TzB1mLw8KfR' },
    hash('hex', hex),
    hash('base64', base64),
  ];
  assert.ok(checkKeys(good).every(({ result }) => result === 'imported'));
  const wrong = [
    { key: 'short' },
    { key: 'with a blank' },
    hash('hex', base64),
    { key: 'a-foreign-key' },
    { key: '${ANON_KEY}', allowWeak: true },
    {},
  ];
  const found = checkKeys(wrong).map(({ error }) => error?.code);
  assert.equal(found, [40001, 40001, 40030, 40031, 40030, 40030]);
});

function row(number: number, text = ''): Row {
  return { place: `line ${number}`, lost: [], item: { name: `n${number}`, ...(text && { text }) } };
}

function rowsOf(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => row(i));
}

function fail(why: string): never {
  throw new Error(why);
}

type Options = {
  skip?: number;
  signal?: AbortSignal;
  /** May fail, by the number of the request. */
  send?(request: number): void;
  answers?: Result[];
};

async function imported(rows: Row[], { skip = 0, signal, send, answers }: Options = {}) {
  const sent: Item[][] = [];
  const report: object[] = [];
  const tally = makeTally((line) => report.push(line));
  const options = {
    workspaceId: 'ws',
    skip,
    tally,
    signal: signal ?? new AbortController().signal,
    async send(items: Item[]) {
      sent.push(items);
      send?.(sent.length - 1);
      return items.map((_, i) => answers?.[i] ?? ({ result: 'imported' } as const));
    },
  };
  const ended = await run(rows, options).then(
    (doneTo) => ({ doneTo, failure: undefined }),
    (error: Error & { doneTo: number }) => ({ doneTo: error.doneTo, failure: error.message }),
  );
  return { ...ended, sent, report, lines: tally.lines(false) };
}
