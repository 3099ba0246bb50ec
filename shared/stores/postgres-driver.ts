import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { compileFunction } from 'node:vm';
import type postgres from 'postgres';

type Mend = [before: string, after: string];

// What a connection had begun ends with it, and what a statement had with that. The driver keeps it: a buffered write, which the
// next connection waits behind for ever; the error of an earlier statement, which the next one gets; how many rows came of one that
// failed, in whose place the next one's rows then have holes; and a connection that each time ends before it is ready is made
// again for ever, without a pause. Each host gets a turn, and one more: it may have been the last of a server that starts again.
const endWithTheConnection: Mend[] = [
  [
    `query = results = errorResponse = null
`,
    `query = results = errorResponse = null
    rows = 0
`,
  ],
  [
    `clearImmediate(nextWriteTimer)
    socket.removeListener('data', data)`,
    `clearImmediate(nextWriteTimer)
    clearTimeout(silence)
    chunk = nextWriteTimer = errorResponse = silence = null
    socket.removeListener('data', data)`,
  ],
  [
    `let socket = null
`,
    `let socket = null
    , ends = 0
`,
  ],
  [
    `initial = query
`,
    `initial = query
      ends = 0
`,
  ],
  [
    `if (initial)
      return reconnect()

    !hadError && (query || sent.length) && error(`,
    `if (initial) {
      query = null
      if (++ends <= host.length)
        return reconnect()
      hadError = true
      errored(Errors.connection('CONNECTION_CLOSED', options, socket))
    }

    ;(query || sent.length) && error(`,
  ],
  [
    `closedTime = performance.now()`,
    `query = null
    ended && (ended(), ending = ended = null)
    closedTime = performance.now()`,
  ],
  // The reader of a cursor may come back for more rows later.
  [
    `async function PortalSuspended() {
    try {
      const x = await Promise.resolve(query.cursorFn(result))
      rows = 0`,
    `async function PortalSuspended() {
    const begun = query
    clearTimeout(silence)
    try {
      const x = await Promise.resolve(query.cursorFn(result))
      if (begun !== query)
        return
      awaitAnswer()
      rows = 0`,
  ],
];

// A server that vanishes closes nothing, and the system notices it after some 15 minutes. So where statements have a time limit, a
// longer silence ends a connection that waits for an answer, or for its end. What came meanwhile is read first: this process may
// have been busy. Who reads a cursor may be slow. Many times that limit, for it does not hold for what is done at the commit.
const TIMES = 4;
const endInSilence: Mend[] = [
  [
    `const connection = {
    queue: queues.closed,`,
    `const statementMs = Number(options.connection.statement_timeout)
  let silence = null

  function awaitAnswer() {
    if (!(statementMs > 0))
      return
    clearTimeout(silence)
    const begun = silence = setTimeout(() => setImmediate(() => {
      if (begun === silence && (terminated || query && !stream))
        socket.destroy()
    }), statementMs * ${TIMES})
  }

  const connection = {
    queue: queues.closed,`,
  ],
  [`(query = q, query.active = true)`, `(query = q, query.active = true, awaitAnswer())`],
  [
    `function data(x) {
`,
    `function data(x) {
    query && awaitAnswer()
`,
  ],
  [
    `socket.readyState === 'open' && socket.end(b().X().end())`,
    `socket.readyState === 'open' && (socket.end(b().X().end()), awaitAnswer())`,
  ],
];

// A transaction stays with the connection that it began on. The driver goes on with it when that has ended: its statements then
// have no socket, or run on the connection that took its place. (A connection that is reserved without a transaction has faults of its
// own, which are not mended: no program of ours reserves one.)
const stayWithTheConnection: Mend[] = [
  [
    `let savepoints = 0`,
    `let lost
      , savepoints = 0`,
  ],
  [
    `new Promise((_, reject) => connection.onclose = reject)`,
    `new Promise((_, reject) => connection.onclose = e => {
          lost = e
          while (queries.length)
            queries.shift().reject(e)
          reject(e)
        })`,
  ],
  [
    `q.catch(e => uncaughtError || (uncaughtError = e))
`,
    `q.catch(e => uncaughtError || (uncaughtError = e))
        if (lost)
          return q.reject(lost)
`,
  ],
];

/**
 * The driver postgres 3.4.9, mended: it survives the end of a connection, and notices that of a server that vanished. Unmended, it
 * can end the process, never use a connection again, or run a statement outside of its transaction
 * (docs/decisions/mended-postgres-driver.md).
 */
export default loadMended() as typeof postgres;

function loadMended(): unknown {
  const entry = createRequire(import.meta.url).resolve('postgres');
  const loadOther = createRequire(entry);
  const connection = load('connection.js', [...endWithTheConnection, ...endInSilence], loadOther);
  return load('index.js', stayWithTheConnection, (name) => (name === './connection.js' ? connection : loadOther(name)));

  function load(name: string, mends: Mend[], require: (name: string) => unknown): unknown {
    const path = join(dirname(entry), name);
    const module: { exports?: unknown } = {};
    const text = mends.reduce(mend, readFileSync(path, 'utf8'));
    compileFunction(text, ['module', 'require'], { filename: path })(module, require);
    return module.exports;
  }
}

function mend(text: string, [before, after]: Mend): string {
  const [start, end, ...more] = text.split(before);
  if (end === undefined || more.length > 0)
    throw new Error(`the driver has changed, and can't be mended at: ${before}`);
  return start + after + end;
}
