import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { compileFunction } from 'node:vm';
import type postgres from 'postgres';

// Each of these is a diff without numbers: its changes say by their lines where they belong, and `@@` stands between them.

// What a connection had begun ends with it, and what a statement had with that. The driver keeps it: a buffered write, which the
// next connection waits behind for ever; the error of an earlier statement, which the next one gets; how many rows came of one that
// failed, in whose place the next one's rows then have holes; and a connection that each time ends before it is ready is made
// again for ever, without a pause. Each host gets a turn, and one more: it may have been the last of a server that starts again.
// The reader of a cursor may come back for more rows later.
const endWithTheConnection = `
   let socket = null
+    , ends = 0
@@
       initial = query
+      ends = 0
@@
+    clearTimeout(silence)
+    chunk = nextWriteTimer = errorResponse = silence = null
     socket.removeListener('data', data)
@@
-    if (initial)
-      return reconnect()
+    if (initial) {
+      query = null
+      if (++ends <= host.length)
+        return reconnect()
+      hadError = true
+      errored(Errors.connection('CONNECTION_CLOSED', options, socket))
+    }

-    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))
+    ;(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))
+    query = null
+    ended && (ended(), ending = ended = null)
@@
     query = results = errorResponse = null
+    rows = 0
@@
   async function PortalSuspended() {
+    const begun = query
+    clearTimeout(silence)
     try {
       const x = await Promise.resolve(query.cursorFn(result))
+      if (begun !== query)
+        return
+      awaitAnswer()
`;

// A server that vanishes closes nothing, and the system notices it after some 15 minutes. So where statements have a time limit, a
// longer silence ends a connection that waits for an answer, or for its end. What came meanwhile is read first: this process may
// have been busy. Who reads a cursor may be slow. Many times that limit, for it does not hold for what is done at the commit.
const TIMES = 4;
const endInSilence = `
+  const statementMs = Number(options.connection.statement_timeout)
+  let silence = null
+
+  function awaitAnswer() {
+    if (!(statementMs > 0))
+      return
+    clearTimeout(silence)
+    const begun = silence = setTimeout(() => setImmediate(() => {
+      if (begun === silence && (terminated || query && !stream))
+        socket.destroy()
+    }), statementMs * ${TIMES})
+  }
+
   const connection = {
@@
         ? sent.push(q)
-        : (query = q, query.active = true)
+        : (query = q, query.active = true, awaitAnswer())
@@
   function data(x) {
+    query && awaitAnswer()
@@
       socket.removeListener('connect', connected)
-      socket.readyState === 'open' && socket.end(b().X().end())
+      socket.readyState === 'open' && (socket.end(b().X().end()), awaitAnswer())
`;

// A transaction stays with the connection that it began on. The driver goes on with it when that has ended: its statements then
// have no socket, or run on the connection that took its place. (A connection that is reserved without a transaction has faults of its
// own, which are not mended: no program of ours reserves one.)
const stayWithTheConnection = `
     const queries = Queue()
-    let savepoints = 0
+    let lost
+      , savepoints = 0
@@
         scope(connection, fn),
-        new Promise((_, reject) => connection.onclose = reject)
+        new Promise((_, reject) => connection.onclose = e => {
+          lost = e
+          while (queries.length)
+            queries.shift().reject(e)
+          reject(e)
+        })
@@
         q.catch(e => uncaughtError || (uncaughtError = e))
+        if (lost)
+          return q.reject(lost)
`;

/**
 * The driver postgres 3.4.9, mended: it survives the end of a connection, and notices that of a server that vanished. Unmended, it
 * can end the process, never use a connection again, or run a statement outside of its transaction
 * (docs/decisions/mended-postgres-driver.md).
 */
export default loadMended() as typeof postgres;

function loadMended(): unknown {
  const entry = createRequire(import.meta.url).resolve('postgres');
  const loadOther = createRequire(entry);
  const connection = load('connection.js', [endWithTheConnection, endInSilence], loadOther);
  return load('index.js', [stayWithTheConnection], (name) =>
    name === './connection.js' ? connection : loadOther(name),
  );

  function load(name: string, diffs: string[], require: (name: string) => unknown): unknown {
    const path = join(dirname(entry), name);
    const module: { exports?: unknown } = {};
    const changes = diffs.flatMap((diff) => diff.slice(1, -1).split('\n@@\n'));
    const text = changes.reduce(mend, readFileSync(path, 'utf8'));
    compileFunction(text, ['module', 'require'], { filename: path })(module, require);
    return module.exports;
  }
}

function mend(text: string, change: string): string {
  const lines = change.split('\n');
  const without = (mark: string) => lines.filter((line) => line[0] !== mark).map((line) => line.slice(1));
  const before = without('+').join('\n');
  const [start, end, ...more] = text.split(`\n${before}\n`);
  if (end === undefined || more.length > 0)
    throw new Error(`the driver has changed, and can't be mended at: ${before}`);
  return `${start}\n${without('-').join('\n')}\n${end}`;
}
