import '../../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { readConfig } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { oldestWaiting, proveAuditLog, headText, parseHead, readKeptHead, type Head } from '../audit/chain.ts';
import { runCommand, withPostgres, withRedis } from './tool.ts';

// Proves that no line of the audit log was changed or removed: `make audit-log-verify`. --since HEAD begins at a head that it
// printed before; --head HEAD begins at the first line, and also finds that head. Exits with 1 and names the first line that
// is wrong, with 2 when it can't tell.
const NAME = 'audit-log-verify';
const CONNECTED_WITHIN_MS = 5_000;
const WAITING_SECONDS = 60;

await runCommand(
  NAME,
  async () => {
    const text = { type: 'string' } as const;
    const { values } = parseArgs({ options: { since: text, head: text } });
    const since = readHead('since', values.since);
    const head = readHead('head', values.head);
    const config = readConfig(programs[NAME]);
    const kept = await withRedis(NAME, config.REDIS_URL, CONNECTED_WITHIN_MS, async (redis, isReachable) =>
      isReachable ? { head: await readKeptHead(redis) } : undefined,
    );
    const known = [head, kept?.head].filter((one) => one !== undefined);
    return withPostgres(config.DATABASE_URL, (sql) => prove(sql, { since, known, isAsked: kept !== undefined }));
  },
  2,
);

type Heads = { since: Head | undefined; known: Head[]; isAsked: boolean };

async function prove(sql: Sql, { since, known, isAsked }: Heads): Promise<number> {
  const started = systemClock.monotonic();
  const { head, lines, broken } = await proveAuditLog(sql, { since, known });
  const proved = lines.toLocaleString('en');
  const problem = (text: string) => console.error(`${NAME}: ${text}`);
  if (broken !== undefined) {
    problem(`BROKEN: ${broken}; ${proved} lines before it are proved`);
    return 1;
  }
  const [{ waiting }] = await sql<[{ waiting: number }]>`select count(*) as waiting from audit_unchained`;
  const waitedSeconds = await oldestWaiting(sql);
  const seconds = ((systemClock.monotonic() - started) / 1000).toFixed(1);
  console.log(`${proved} lines are as they were written, ${waiting} not chained yet, ${seconds} s`);
  if (head) console.log(`head ${headText(head)}`);
  const isLate = waitedSeconds > WAITING_SECONDS;
  if (!isAsked) problem('Redis does not answer: whether the newest lines were removed is not known');
  if (isLate) problem(`a line has waited ${Math.round(waitedSeconds)} s to be chained: does an api run?`);
  return isAsked && !isLate ? 0 : 2;
}

function readHead(name: string, text = ''): Head | undefined {
  const found = parseHead(text);
  if (text !== '' && !found)
    throw new Error(`--${name} is a head that make ${NAME} printed: a number, a colon and 64 hex digits`);
  return found;
}
