import type { Clock } from '../../../shared/runtime/clock.ts';
import { bearerToken } from '../../../shared/auth/access-token.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import { asPostgresUnavailable, setTeam, type Sql } from '../../../shared/stores/postgres.ts';
import { hashKeyText, keyShard } from '../../../shared/values/key-text.ts';
import { recordDenied, type AuditClient, type DeniedAttempts } from '../resources/record.ts';

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

/** Attempts alike, since the line that was written last. The line tells of the first one. `hash`: of a token that is yet to be looked up. */
type Window = DeniedAttempts & { quietUntil: number; hash?: string | undefined };

const QUIET_MS = 60_000;
const MOST = { windows: 10_000, ofTeam: 200, ofToken: 20, strangers: 1_000 };

/** Gathers refused attempts. */
export type DeniedAttemptLog = ReturnType<typeof gatherDeniedAttempts>;

type LogOptions = { sql: Sql; teamSql: Sql; metrics: Metrics; log: Logger; clock: Clock };

/**
 * Gathers refused attempts of known tokens for the audit log: written each second, the first of a kind (token, operation, error) has a
 * line within about a second, then there is one line a minute with their number. A killed process loses what it has not written.
 * Strangers leave no lines: an attempt of an unknown token is counted in a metric, like one beyond a limit below.
 */
export function gatherDeniedAttempts({ sql, teamSql, metrics, log, clock }: LogOptions) {
  const windows = new Map<string, Window>();
  const count = (kind: 'logged' | 'unknown_token' | 'over_limit', attempts: number) =>
    metrics.deniedAttempts.inc({ kind }, attempts);

  function note({ caller, authorization, ...attempt }: Attempt): void {
    const hash = caller ? undefined : hashOf(authorization);
    if (!caller && hash === undefined) return count('unknown_token', 1);
    const { teamId = '', tokenId = '' } = caller ?? {};
    const window = { ...attempt, teamId, tokenId, hash, attempts: 1, quietUntil: 0 };
    const name = `${hash ?? tokenId} ${attempt.errorCode} ${attempt.operation}`;
    const known = windows.get(name);
    // After a line was written, the next one tells of the first attempt since.
    if (known?.attempts === 0) Object.assign(known, attempt, { attempts: 1 });
    else if (known) known.attempts += 1;
    else if (hasRoom(window)) windows.set(name, window);
    else count('over_limit', 1);
  }

  // Strangers share the room of the team '', which has no name.
  function hasRoom({ teamId, tokenId }: Window): boolean {
    const ofTeam = [...windows.values()].filter((one) => one.teamId === teamId);
    if (teamId === '') return ofTeam.length < MOST.strangers;
    const ofToken = ofTeam.filter((one) => one.tokenId === tokenId);
    return windows.size < MOST.windows && ofTeam.length < MOST.ofTeam && ofToken.length < MOST.ofToken;
  }

  // Which tokens these are: of a token that was revoked or has expired, only Postgres knows the team.
  async function lookUp(some: [string, Window][]): Promise<void> {
    const rows = await sql<{ hash: string; tokenId: string; teamId: string }[]>`
      select hash, id as token_id, team_id from access_tokens where hash = any(${some.map(([, { hash }]) => hash!)})`;
    const tokens = new Map(rows.map((row) => [row.hash, row]));
    for (const [name, window] of some) {
      const token = tokens.get(window.hash!);
      if (token && hasRoom({ ...window, ...token })) {
        Object.assign(window, token);
        continue;
      }
      windows.delete(name);
      count(token ? 'over_limit' : 'unknown_token', window.attempts);
    }
  }

  // Lines are taken before they are written: an attempt that comes meanwhile is the first of the next line. A connection that is
  // lost in a commit may have a line written twice.
  async function writeTeam(teamId: string, due: Window[]): Promise<void> {
    const lines = due.map((window) => ({ ...window }));
    for (const window of due) window.attempts = 0;
    try {
      await teamSql.begin(async (tx) => {
        await setTeam(tx, teamId);
        await recordDenied(tx, lines);
      });
    } catch (error) {
      for (const [i, window] of due.entries())
        Object.assign(window, lines[i], { attempts: lines[i]!.attempts + window.attempts });
      throw error;
    }
    for (const [i, window] of due.entries()) {
      window.quietUntil = clock.monotonic() + QUIET_MS;
      count('logged', lines[i]!.attempts);
    }
  }

  return {
    /** Notes a refused attempt. Returns at once: nothing waits for the log. */
    note,
    /** Writes lines of those that are due, or of all. */
    async write(all: boolean): Promise<void> {
      const strangers = [...windows].filter(([, { teamId }]) => teamId === '');
      if (strangers.length > 0) await lookUp(strangers);
      const isDue = ({ quietUntil }: Window) => all || quietUntil <= clock.monotonic();
      for (const [name, window] of windows) if (window.attempts === 0 && isDue(window)) windows.delete(name);
      // Those that came meanwhile are looked up next time.
      const due = [...windows.values()].filter((one) => one.attempts > 0 && one.teamId !== '' && isDue(one));
      // One team's failure holds up no other's lines.
      for (const [teamId, ofTeam] of Map.groupBy(due, (window) => window.teamId))
        await writeTeam(teamId, ofTeam).catch((error: unknown) => {
          if (asPostgresUnavailable(error) !== error) throw error;
          log.warn({ error, teamId }, 'refused attempts could not be written to the audit log; trying again');
        });
    },
  };
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
