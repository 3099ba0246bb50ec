import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import { eventually, spawnWorld, type Answer } from '../helpers/world.ts';

// Connections from the api to Postgres end at any moment, as when Postgres or something on the way there is started again.

const WRITERS = 6;
const ENDS = 50;
// More than the deadline of a request, and room for a busy machine.
const ANSWERED_WITHIN_MS = 60_000;

const world = await spawnWorld(['api'], { REQUEST_DEADLINE_MS: '10000' });

test('the api lives and answers each write, and what it says of the write is true', async () => {
  const answers = new Map<string, Answer>();
  let stored = 0;
  let stopped = false;
  const writers = Array.from({ length: WRITERS }, async (_, writer) => {
    for (let i = 0; !stopped; i++) {
      const name = `${writer} ${i}`;
      const answer = await withTimeout(
        systemClock,
        ANSWERED_WITHIN_MS,
        world.call('post', '/api/v1/workspace', { name }),
      );
      answers.set(name, answer);
      if (answer.status === 201) stored++;
    }
  });
  const ends = (async () => {
    for (let i = 1; i <= ENDS; i++) {
      await eventually('more is stored', async () => stored >= i, ANSWERED_WITHIN_MS);
      await world.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and usename = 'keytally_api' order by random() limit 1`;
    }
    stopped = true;
  })();
  await Promise.all([ends, ...writers]).finally(() => (stopped = true));

  assert.is(world.api.process.exitCode, null);
  const rows = await world.sql<{ name: string }[]>`select name from workspaces`;
  const found = new Set(rows.map(({ name }) => name));
  const refused = [...answers].filter(([, { status }]) => status !== 201);
  const wrong = [...answers].filter(([name, { status, text }]) =>
    status === 201 ? !found.has(name) : text.includes('nothing was stored') && found.has(name),
  );
  assert.equal(wrong, []);
  assert.equal(
    refused.filter(([, { status }]) => status !== 503).map(([, { text }]) => text),
    [],
  );
  assert.ok(refused.length > 0, `${refused.length} of ${answers.size} were refused`);
});
