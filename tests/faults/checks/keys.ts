import { grouped, mayBeUndone, type Case, type Say } from './case.ts';
import type { Changed, ChangeKind, Verified } from '../history.ts';

/** A change with all its attempts: it may be in force from `from` on, and surely is from `done` on. */
type Deed = { what: ChangeKind; from: number; to: number; done: number; secretIndex: number | undefined };

// A revoked access token is refused within a second; the rest is for the network.
const REVOKED_WITHIN_MS = 1_100;
// How far two clocks of one machine may differ: the history's and the one that expiry goes by.
const CLOCKS_MS = 100;

/** A disabled, deleted, rotated, revoked or expired key is never VALID, and any other key is never refused. */
export function checkKeys(one: Case, say: Say): void {
  const deeds = new Map([...grouped(one.changed, (line) => line.of)].map(([of, lines]) => [of, deedsOf(lines)]));
  const made = one.changed.filter(({ what }) => what === 'key.create');
  const expiries = new Map(made.map(({ of, detail }) => [of, detail.expiresAtMs]));
  for (const line of one.verified) {
    const known = (of: string) => knownAt(one, line, deeds.get(of) ?? []);
    if (line.token) checkToken(line, known(line.token), say);
    if (line.http !== 200) continue;
    const expiresAt = expiries.get(line.key);
    checkKey(line, known(line.key), expiresAt === undefined ? Infinity : expiresAt - one.startedAtMs, say);
  }
}

/** What was done before a call. After a restore nobody knows whether a change since the backup is still there. */
function knownAt(one: Case, line: Verified, deeds: Deed[]): Deed[] {
  const restored = one.restored.filter(({ at }) => at < line.to);
  if (restored.length === 0) return deeds;
  return deeds.map((deed) => (mayBeUndone({ ...one, restored }, deed) ? { ...deed, done: Infinity } : deed));
}

function checkKey(line: Verified, deeds: Deed[], expiresAt: number, say: Say): void {
  const { from, to, secretIndex, status = '' } = line;
  const done = (what: ChangeKind) => deeds.filter((deed) => deed.what === what && deed.done < from);
  const begun = (what: ChangeKind) => deeds.filter((deed) => deed.what === what && deed.from < to);
  const replaced = (deed: Deed) => deed.secretIndex !== undefined && deed.secretIndex > secretIndex;
  const mayNotHaveMade = (deed: Deed) =>
    (deed.what === 'key.create' || deed.what === 'key.rotate') &&
    (deed.secretIndex ?? 0) === secretIndex &&
    deed.done === Infinity;
  const enabled = enabledAt(deeds, from, to);

  const passed = status === 'VALID' || status === 'RATE_LIMITED' || status === 'USAGE_LIMITED';
  const gone =
    (done('key.delete').length > 0 && 'deleted') ||
    (done('key.rotate').some(replaced) && 'rotated') ||
    (enabled === false && 'disabled') ||
    (from > expiresAt + CLOCKS_MS && 'expired');
  if (gone && passed) return say('what is gone stays gone', `${line.call}: ${line.key} was ${gone} and is ${status}`);

  const mayBe: Record<string, boolean> = {
    DELETED: begun('key.delete').length > 0,
    INVALID: begun('key.rotate').some(replaced) || deeds.some(mayNotHaveMade),
    DISABLED: enabled !== true,
    EXPIRED: to > expiresAt - CLOCKS_MS,
  };
  if (!passed && !mayBe[status])
    say('what is good stays good', `${line.call}: ${line.key} was ${status} (${line.reason}), for no reason`);
}

/** Whether a key is enabled throughout a call; undefined if that may have changed or is unknown. */
function enabledAt(deeds: Deed[], from: number, to: number): boolean | undefined {
  const switched = deeds.filter(({ what }) => what === 'key.enable' || what === 'key.disable');
  const last = switched.findLast((deed) => deed.from < to);
  if (!last) return true;
  const unclear = switched.some(
    (deed) => deed.from < to && (deed.done >= from || (deed !== last && deed.done > last.from)),
  );
  return unclear ? undefined : last.what === 'key.enable';
}

function checkToken(line: Verified, deeds: Deed[], say: Say): void {
  const revoked = deeds.find(({ what }) => what === 'token.revoke');
  if (revoked && revoked.done + REVOKED_WITHIN_MS < line.from && line.http === 200)
    say('what is gone stays gone', `${line.call}: the access token ${line.token} was revoked and let pass`);
  const mayNotBeMade = deeds.some(({ what, done }) => what === 'token.create' && done === Infinity);
  if (line.http === 401 && !mayNotBeMade && !(revoked && revoked.from < line.to))
    say('what is good stays good', `${line.call}: the access token ${line.token} was refused, for no reason`);
}

function deedsOf(lines: Changed[]): Deed[] {
  const changes = [...grouped(lines, (line) => line.change).values()];
  return changes.map((attempts) => {
    const { what, from, detail } = attempts[0]!;
    const answered = attempts.find(({ http }) => http !== undefined && http < 300);
    const refused = attempts.every(({ http }) => http !== undefined && http >= 400 && http < 500);
    const done = answered?.to ?? Infinity;
    return { what, from: refused ? Infinity : from, to: attempts.at(-1)!.to, done, secretIndex: detail.secretIndex };
  });
}
