import '../../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { readConfig } from '../../../shared/runtime/config.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { connectRedis } from '../../../shared/stores/redis.ts';
import { oldestWaiting, proveAuditLog, headText, parseHead, readKeptHead, type Head } from '../audit/chain.ts';
import { progressLine, withPostgres } from './tool.ts';

// Proves that no line of the audit log was changed or removed: `make audit-log-verify`. --since HEAD begins at a head that it
// printed before; --head HEAD begins at the first line, and also finds that head. Exits with 1 and names the first line that
// is wrong, with 2 when it can't tell.
const CONNECTED_WITHIN_MS = 5_000;
const WAITING_SECONDS = 60;

try {
  const { since, head } = readArguments();
  const config = readConfig(programs['audit-log-verify']);
  const kept = await keptHead(config.REDIS_URL);
  const known = [head, kept.head].filter((one) => one !== undefined);
  const { exitCode, problems } = await withPostgres(config.DATABASE_URL, (sql) =>
    prove(sql, { since, known, asked: kept.asked }),
  );
  for (const problem of problems) console.error(`audit-log-verify: ${problem}`);
  process.exitCode = exitCode;
} catch (error) {
  console.error(`audit-log-verify: ${(error as Error).message}`);
  process.exitCode = 2;
}

type Heads = { since: Head | undefined; known: Head[]; asked: boolean };

async function prove(sql: Sql, { since, known, asked }: Heads): Promise<{ exitCode: number; problems: string[] }> {
  const started = systemClock.monotonic();
  const progress = progressLine();
  const { head, lines, broken } = await proveAuditLog(sql, { since, known, onProgress: progress.show });
  progress.end();
  const proved = lines.toLocaleString('en');
  if (broken !== undefined)
    return { exitCode: 1, problems: [`BROKEN: ${broken}; ${proved} lines before it are proved`] };

  const [{ waiting }] = await sql<[{ waiting: number }]>`select count(*) as waiting from audit_unchained`;
  const waitedSeconds = await oldestWaiting(sql);
  const seconds = ((systemClock.monotonic() - started) / 1000).toFixed(1);
  console.log(`${proved} lines are as they were written, ${waiting} not chained yet, ${seconds} s`);
  if (head) console.log(`head ${headText(head)}`);
  const problems = asked ? [] : ['Redis does not answer: whether the newest lines were removed is not known'];
  if (waitedSeconds > WAITING_SECONDS)
    problems.push(`a line has waited ${Math.round(waitedSeconds)} s to be chained: does an api run?`);
  return { exitCode: problems.length > 0 ? 2 : 0, problems };
}

async function keptHead(url: string): Promise<{ head: Head | undefined; asked: boolean }> {
  const redis = connectRedis(url, makeLogger('audit-log-verify', 'silent'), systemClock);
  try {
    await redis.connected(CONNECTED_WITHIN_MS);
    return { head: await readKeptHead(redis), asked: true };
  } catch {
    return { head: undefined, asked: false };
  } finally {
    await redis.close();
  }
}

function readArguments(): { since: Head | undefined; head: Head | undefined } {
  const text = { type: 'string', default: '' } as const;
  const { values } = parseArgs({ options: { since: text, head: text } });
  const read = (name: 'since' | 'head') => {
    const found = values[name] === '' ? undefined : parseHead(values[name]);
    if (values[name] !== '' && !found)
      throw new Error(`--${name} is a head that make audit-log-verify printed: a number, a colon and 64 hex digits`);
    return found;
  };
  return { since: read('since'), head: read('head') };
}
