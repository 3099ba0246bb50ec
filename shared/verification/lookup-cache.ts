import type { Static } from 'typebox';
import type { billing } from '../contract/schemas.ts';
import { scopeEntryOf } from '../contract/scope-flags.ts';
import { bytesOfText, makeByteCache } from '../runtime/byte-cache.ts';
import { flagsOf, isGone, readRecord } from '../stores/records.ts';
import { parseCredits } from '../values/credits.ts';
import { readLookup, type NewLookup } from './script-protocol.ts';

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
  /** Whether the spend cap of the billing record is what ends its use, and not the credits that were bought. */
  isCapped: boolean;
  /** The most that may be used of the billing record, in micro-credits. */
  limitMicros: number;
  workspaceId: string;
};

// Of lookups and their questions together: some 20,000 with small metadata.
const MOST_BYTES = 32_000_000;

/** Keeps lookups by their question and the hash of the secret. It forgets all when it is full. */
export function makeLookupCache(mostBytes = MOST_BYTES) {
  const kept = new Map<string, Map<string, Lookup>>();
  let bytes = 0;

  function add(question: string, keyHash: string, shard: number, newLookup: NewLookup): Lookup {
    const lookup = lookupFrom(shard, newLookup);
    const before = get(question, keyHash);
    bytes += sizeOf(question, lookup) - (before ? sizeOf(question, before) : 0);
    if (bytes > mostBytes) {
      kept.clear();
      bytes = sizeOf(question, lookup);
    }
    const sameQuestion = kept.get(question);
    if (sameQuestion) sameQuestion.set(keyHash, lookup);
    else kept.set(question, new Map([[keyHash, lookup]]));
    return lookup;
  }

  function get(question: string, keyHash: string): Lookup | undefined {
    return kept.get(question)?.get(keyHash);
  }

  function remove(question: string, keyHash: string): void {
    const known = get(question, keyHash);
    if (!known) return;
    bytes -= sizeOf(question, known);
    kept.get(question)!.delete(keyHash);
  }

  return { get, add, remove, bytes: () => bytes };
}

// 400 stands for what is not measured: ids, hash, numbers, and the places in the maps.
function sizeOf(question: string, { text, addressList, keyPart, billingPart }: Lookup): number {
  return [question, text, addressList, keyPart, billingPart].reduce((sum, part) => sum + bytesOfText(part), 400);
}

function lookupFrom(shard: number, { lookup, keyRecord, billingRecord, scopes }: NewLookup): Lookup {
  const key = readRecord('key', keyRecord);
  const billingFields = readRecord('billing', billingRecord);
  const { epoch, addressList } = readLookup(lookup);
  return {
    text: lookup,
    shard,
    epoch: Number(epoch),
    addressList: copyOf(addressList),
    keyPart: copyOf(`${key.answerPart},"scopes":${scopesPart(key.scopeFlags, scopes)}`),
    billingPart: copyOf(billingFields.answerPart),
    billingId: copyOf(billingFields.billingId),
    ...creditsOf(billingFields.answerPart),
    limitMicros: Number(billingFields.limitMicros),
    workspaceId: copyOf(key.workspaceId),
  };
}

function creditsOf(billingPart: string): Pick<Lookup, 'totalMicros' | 'isCapped'> {
  const record = JSON.parse(`{${billingPart}}`) as Partial<Static<typeof billing>>;
  const totalMicros = parseCredits(record.totalCredits ?? '0')!;
  const cap = parseCredits(record.spendCap ?? '');
  return { totalMicros, isCapped: cap !== undefined && (record.allowOverages === true || cap < totalMicros) };
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
