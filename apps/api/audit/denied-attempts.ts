import type { Clock } from '../../../shared/runtime/clock.ts';
import { bearerToken } from '../../../shared/auth/access-token.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import { asPostgresUnavailable, setTeam, type Sql } from '../../../shared/stores/postgres.ts';
import { hashKeyText, keyShard } from '../../../shared/values/key-text.ts';
import { recordDenied, type AuditClient, type DeniedAttempts } from '../resources/audit.ts';

/** A request that was refused: 401 with a token that is no longer valid, or 403. */
export type Attempt = {
  /** Absent when the token did not authenticate. */
  caller: Caller | undefined;
  authorization: string | undefined;
  operation: string;
  errorCode: number;
  requestId: string;
  client: AuditClient;
};

/** Attempts alike, since the line that was written last. The line tells of the first one. */
type Window = DeniedAttempts & { quietUntil: number };
type Unresolved = Omit<Window, 'teamId' | 'tokenId' | 'quietUntil'> & { hash: string };

const EVERY_MS = 1_000;
const QUIET_MS = 60_000;
const MAX_WINDOWS = 10_000;
const MAX_OF_TEAM = 200;
const MAX_OF_TOKEN = 20;
const MAX_UNRESOLVED = 1_000;

export type DeniedAttemptLog = Pick<Loop, 'stop'> & {
  /** Notes a refused attempt. Returns at once: nothing waits for the log. */
  note(attempt: Attempt): void;
};

/** What gathers attempts, and writes lines of those that are due, or of all. */
export type DeniedAttemptsGathered = Pick<DeniedAttemptLog, 'note'> & { write(all: boolean): Promise<void> };

/**
 * Writes refused attempts of known tokens to the audit log: the first of a kind (token, operation, error) within about a
 * second, then one line a minute with their number. A killed process loses what it has not written. Strangers leave no lines:
 * an attempt of an unknown token is counted in a metric, like one beyond a limit below.
 */
export function logDeniedAttempts(
  sql: Sql,
  teamSql: Sql,
  metrics: Metrics,
  log: Logger,
  clock: Clock,
): DeniedAttemptLog {
  const { note, write } = gatherDeniedAttempts(sql, teamSql, metrics, log, clock);
  const loop = startLoop(clock, EVERY_MS, log, 'writing refused attempts to the audit log', () => write(false));
  return {
    note,
    async stop() {
      await loop.stop();
      await write(true).catch((error: unknown) => log.warn({ error }, 'refused attempts are missing in the audit log'));
    },
  };
}

/** The same, written when the caller says so. */
export function gatherDeniedAttempts(
  sql: Sql,
  teamSql: Sql,
  metrics: Metrics,
  log: Logger,
  clock: Clock,
): DeniedAttemptsGathered {
  const teams = new Map<string, Map<string, Window>>();
  const unresolved = new Map<string, Unresolved>();
  let windows = 0;
  const count = (kind: 'logged' | 'unknown_token' | 'over_limit', attempts: number) =>
    metrics.deniedAttempts.inc({ kind }, attempts);

  function note({ caller, authorization, ...attempt }: Attempt): void {
    if (caller) return add({ ...attempt, teamId: caller.teamId, tokenId: caller.tokenId, attempts: 1, quietUntil: 0 });
    const hash = hashOf(authorization);
    if (hash === undefined) return count('unknown_token', 1);
    const name = `${hash} ${attempt.errorCode} ${attempt.operation}`;
    const known = unresolved.get(name);
    if (known) known.attempts += 1;
    else if (unresolved.size >= MAX_UNRESOLVED) count('over_limit', 1);
    else unresolved.set(name, { ...attempt, hash, attempts: 1 });
  }

  function add(window: Window): void {
    const { teamId, tokenId, errorCode, operation, attempts } = window;
    const ofTeam = teams.get(teamId) ?? new Map<string, Window>();
    const name = `${tokenId} ${errorCode} ${operation}`;
    const known = ofTeam.get(name);
    // After a line was written, the next one tells of the first attempt since.
    if (known?.attempts === 0) Object.assign(known, window, { quietUntil: known.quietUntil });
    else if (known) known.attempts += attempts;
    else if (windows >= MAX_WINDOWS || isFull(ofTeam, `${tokenId} `)) count('over_limit', attempts);
    else {
      teams.set(teamId, ofTeam.set(name, window));
      windows += 1;
    }
  }

  // Which tokens these are: of a token that was revoked or has expired, only Postgres knows the team.
  async function resolve(): Promise<void> {
    const some = [...unresolved];
    if (some.length === 0) return;
    const rows = await sql<{ hash: string; id: string; teamId: string }[]>`
      select hash, id, team_id from access_tokens where hash = any(${some.map(([, { hash }]) => hash)})`;
    const tokens = new Map(rows.map((row) => [row.hash, row]));
    for (const [name, { hash, ...attempt }] of some) {
      // Others came meanwhile, and are looked for next time.
      unresolved.delete(name);
      const token = tokens.get(hash);
      if (token) add({ ...attempt, teamId: token.teamId, tokenId: token.id, quietUntil: 0 });
      else count('unknown_token', attempt.attempts);
    }
  }

  // Lines are taken before they are written: an attempt that comes meanwhile is the first of the next line. A connection that is
  // lost in a commit may have a line written twice.
  async function writeTeam(teamId: string, ofTeam: Map<string, Window>, all: boolean): Promise<void> {
    const due = (window: Window) => all || window.quietUntil <= clock.monotonic();
    const taken = [...ofTeam.values()].filter((window) => window.attempts > 0 && due(window));
    const lines = taken.map((window) => ({ ...window }));
    for (const window of taken) window.attempts = 0;
    try {
      if (lines.length > 0)
        await teamSql.begin(async (tx) => {
          await setTeam(tx, teamId);
          await recordDenied(tx, lines);
        });
    } catch (error) {
      for (const [i, window] of taken.entries())
        Object.assign(window, lines[i], { attempts: lines[i]!.attempts + window.attempts });
      throw error;
    }
    for (const [i, window] of taken.entries()) {
      window.quietUntil = clock.monotonic() + QUIET_MS;
      count('logged', lines[i]!.attempts);
    }
    for (const [name, window] of ofTeam)
      if (window.attempts === 0 && due(window)) windows -= Number(ofTeam.delete(name));
    if (ofTeam.size === 0) teams.delete(teamId);
  }

  // One team's failure holds up no other's lines.
  async function write(all: boolean): Promise<void> {
    for (const [teamId, ofTeam] of teams)
      await writeTeam(teamId, ofTeam, all).catch((error: unknown) => {
        if (asPostgresUnavailable(error) !== error) throw error;
        log.warn({ error, teamId }, 'refused attempts could not be written to the audit log; trying again');
      });
  }

  return {
    note,
    async write(all) {
      if (unresolved.size > 0) await resolve();
      await write(all);
    },
  };
}

function isFull(ofTeam: Map<string, Window>, token: string): boolean {
  if (ofTeam.size < MAX_OF_TOKEN) return false;
  return (
    ofTeam.size >= MAX_OF_TEAM || [...ofTeam.keys()].filter((name) => name.startsWith(token)).length >= MAX_OF_TOKEN
  );
}

// Undefined for what can't be a token of ours: nobody has to look for it.
function hashOf(authorization: string | undefined): string | undefined {
  try {
    const secret = bearerToken(authorization);
    return keyShard(secret) === undefined ? undefined : hashKeyText(secret);
  } catch {
    return undefined;
  }
}
