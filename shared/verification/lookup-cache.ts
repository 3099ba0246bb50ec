import type { Static } from 'typebox';
import type { billing } from '../contract/schemas.ts';
import { scopeEntryOf } from '../contract/schemas.ts';
import { bytesOfText, makeByteCache } from '../runtime/byte-cache.ts';
import { makeSeenBefore } from '../runtime/seen-before.ts';
import { numberOfText } from '../runtime/text-number.ts';
import { limitAlertsOf } from '../stores/account-settings.ts';
import { beforeLimits, hasLimits, type LimitPlace } from '../stores/limits.ts';
import { flagsOf, isGone, readRecord } from '../stores/records.ts';
import { parseCredits } from '../values/credits.ts';
import { readLimits, type KnownLimits } from './limits.ts';
import { packLookup, readLookup, type NewLookup } from './script-protocol.ts';

/** What verify.lua looked up of a key, and the parts of answers that stay the same while the lookup holds. */
export type Lookup = {
  /** As verify.lua answered it and wants it back: the script sees by it whether it still holds. */
  text: string;
  /** Where the key was found: one that was made elsewhere names no shard. */
  shard: number;
  epoch: number;
  /** The name of the list that the client's address must be in, '' without one. */
  addressList: string;
  /** Parts of answers, ready-made JSON: the key with its scopes, and the billing record ('' without one). */
  keyPart: string;
  billingPart: string;
  billingId: string;
  /** All credits of the billing record, in micro-credits. */
  totalMicros: number;
  /** What its settings say of use beyond credits, and of a cap. */
  spending: { allowOverages: boolean; spendCapMicros: number | null };
  /** The most that may be used of a plain billing record, in micro-credits; of an account it changes without its settings. */
  limitMicros: number;
  workspaceId: string;
  /** Whose limit `ratePerSecond` is. */
  rateOn: LimitPlace;
  /** Limits over windows, with those of the calendar as they are now. */
  limits: KnownLimits | undefined;
};

/** What a lookup answers: the team's question about the secret of this hash. */
export type Asked = { teamId: string; question: string; keyHash: string };

// A limit that was read, and what is packed of it.
const BYTES_OF_LIMIT = 1_000;
// Of lookups and their questions together: some 20,000 with small metadata.
const MOST_BYTES = 32_000_000;
const PLACES = 65_536;

type Team = { questions: Map<string, Map<string, Lookup>>; bytes: number };

/**
 * Keeps lookups by their team, their question and the hash of the secret; from a quarter of its bytes on, only those that are asked
 * for again. When it is full it forgets those of the teams that have most, until half is free: whoever asks something new each
 * time makes it forget nothing of others, and leaves the collector of garbage little to copy.
 */
export function makeLookupCache(mostBytes = MOST_BYTES) {
  const teams = new Map<string, Team>();
  const seenBefore = makeSeenBefore(PLACES);
  let bytes = 0;

  function add(asked: Asked, shard: number, newLookup: NewLookup, nowMs: number): Lookup {
    const lookup = lookupFrom(shard, newLookup, nowMs);
    const { teamId, question, keyHash } = asked;
    const wasKept = remove(asked);
    if (!wasKept && bytes > mostBytes / 4 && !seenBefore(numberOfText(teamId + keyHash + question))) return lookup;
    const size = sizeOf(question, lookup);
    if (bytes + size > mostBytes) forgetMost();
    const team = teams.getOrInsertComputed(teamId, () => ({ questions: new Map(), bytes: 0 }));
    team.questions.getOrInsertComputed(question, () => new Map()).set(keyHash, lookup);
    team.bytes += size;
    bytes += size;
    return lookup;
  }

  function get({ teamId, question, keyHash }: Asked): Lookup | undefined {
    return teams.get(teamId)?.questions.get(question)?.get(keyHash);
  }

  function remove(asked: Asked): boolean {
    const known = get(asked);
    if (!known) return false;
    const { teamId, question, keyHash } = asked;
    const team = teams.get(teamId)!;
    const size = sizeOf(question, known);
    team.bytes -= size;
    bytes -= size;
    const sameQuestion = team.questions.get(question)!;
    sameQuestion.delete(keyHash);
    if (sameQuestion.size === 0) team.questions.delete(question);
    return true;
  }

  function forgetMost(): void {
    const byBytes = [...teams].toSorted(([, a], [, b]) => b.bytes - a.bytes);
    for (const [teamId, team] of byBytes) {
      if (bytes <= mostBytes / 2) return;
      teams.delete(teamId);
      bytes -= team.bytes;
    }
  }

  return { get, add, remove, bytes: () => bytes };
}

// 400 stands for what is not measured: ids, hash, numbers, and the places in the maps.
function sizeOf(question: string, { text, addressList, keyPart, billingPart, limits }: Lookup): number {
  const ofLimits = (limits?.list.length ?? 0) * BYTES_OF_LIMIT;
  return [question, text, addressList, keyPart, billingPart].reduce(
    (sum, part) => sum + bytesOfText(part),
    400 + ofLimits,
  );
}

function lookupFrom(shard: number, newLookup: NewLookup, nowMs: number): Lookup {
  const { lookup, keyRecord, billingRecord, scopes } = newLookup;
  const key = readRecord('key', keyRecord);
  const billingFields = readRecord('billing', billingRecord);
  const fields = readLookup(lookup);
  const { epoch, addressList } = fields;
  const alerts = () => limitAlertsOf(billingRecord, scopes[0] ?? '');
  const limits = hasLimits(fields.ratePerSecond) ? readLimits(fields.ratePerSecond, nowMs, alerts()) : undefined;
  return {
    text: limits ? withReadLimits(fields, limits) : lookup,
    shard,
    epoch: Number(epoch),
    addressList: copyOf(addressList),
    keyPart: copyOf(`${key.answerPart},"scopes":${scopesPart(key.scopeFlags, scopes)}`),
    billingPart: copyOf(billingFields.answerPart),
    billingId: copyOf(billingFields.billingId),
    ...creditsOf(billingFields.answerPart),
    limitMicros: Number(beforeLimits(billingFields.limitMicros)),
    workspaceId: copyOf(key.workspaceId),
    rateOn: beforeLimits(key.ratePerSecond) === '' ? 'workspace' : 'key',
    limits,
  };
}

/** A lookup as it is sent back: with what the script needs of limits, until the first of their windows ends. */
function withReadLimits(fields: ReturnType<typeof readLookup>, { rateField, holdsUntilMs }: KnownLimits): string {
  const until = Number(fields.holdsUntilMs);
  const first = holdsUntilMs === 0 || (until > 0 && until < holdsUntilMs) ? until : holdsUntilMs;
  return packLookup({ ...fields, ratePerSecond: rateField, holdsUntilMs: String(first) });
}

function creditsOf(billingPart: string): Pick<Lookup, 'totalMicros' | 'spending'> {
  const record = JSON.parse(`{${billingPart}}`) as Partial<Static<typeof billing>>;
  const totalMicros = parseCredits(record.totalCredits ?? '0')!;
  const spendCapMicros = parseCredits(record.spendCap ?? '') ?? null;
  return { totalMicros, spending: { allowOverages: record.allowOverages === true, spendCapMicros } };
}

// A string of its own: a string that was cut from another, or joined, points at that one, and each step costs a cache miss.
function copyOf(text: string): string {
  return Buffer.from(text).toString();
}

// Many keys have the same scopes. The longest list and its JSON take some 90,000 bytes.
const scopesParts = makeByteCache<string>(4_000_000);

function scopesPart(flags: string, records: readonly string[]): string {
  // The first record is that of the workspace's defaults.
  const scopes = records.slice(1);
  const listed = `${flags}\x1f${scopes.join('\x1e')}`;
  const known = scopesParts.get(listed);
  if (known !== undefined) return known;
  const entries = scopes.flatMap((record, i) => {
    if (isGone(record)) return [];
    const { representation, scopeId } = readRecord('scope', record);
    return [scopeEntryOf(representation, flagsOf(flags, i), scopeId)];
  });
  const part = JSON.stringify(entries);
  scopesParts.set(listed, part, bytesOfText(listed) + bytesOfText(part) + 200);
  return part;
}
