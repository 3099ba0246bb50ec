import { scopeEntryOf } from '../contract/scope-flags.ts';
import { memoize } from '../runtime/memoize.ts';
import { flagsOf, readRecord } from '../stores/records.ts';
import { readLookup, splitScopes, type NewLookup } from './script-protocol.ts';

/** What verify.lua looked up of a key, and the parts of answers that stay the same while the lookup holds. */
export type Lookup = {
  /** As verify.lua answered it and wants it back: the script sees by it whether it still holds. */
  text: string;
  epoch: number;
  /** Parts of answers, ready-made JSON: the key with its scopes, and the billing record ('' without one). */
  keyPart: string;
  billingPart: string;
  billingId: string;
  /** The most that may be used of the billing record, in micro-credits. */
  limitMicros: number;
  workspaceId: string;
};

// Of lookups and their questions together: some 20,000 with small metadata.
const MOST_CHARACTERS = 16_000_000;
// A longer lookup (a long list of addresses) is not kept: looking up again is cheaper than sending it.
const LONGEST_TEXT = 4_096;

/** Keeps lookups by their question and the hash of the secret. It forgets all when it is full. */
export function makeLookupCache() {
  const kept = new Map<string, Map<string, Lookup>>();
  let characters = 0;

  function add(question: string, keyHash: string, newLookup: NewLookup): Lookup {
    const lookup = lookupFrom(newLookup);
    if (lookup.text.length > LONGEST_TEXT) return lookup;
    const before = get(question, keyHash);
    characters += sizeOf(question, lookup) - (before ? sizeOf(question, before) : 0);
    if (characters > MOST_CHARACTERS) {
      kept.clear();
      characters = sizeOf(question, lookup);
    }
    const sameQuestion = kept.get(question);
    if (sameQuestion) sameQuestion.set(keyHash, lookup);
    else kept.set(question, new Map([[keyHash, lookup]]));
    return lookup;
  }

  function get(question: string, keyHash: string): Lookup | undefined {
    return kept.get(question)?.get(keyHash);
  }

  return { get, add };
}

// 200 stands for the fields that are not measured: ids, hash and numbers.
function sizeOf(question: string, { text, keyPart, billingPart }: Lookup): number {
  return question.length + text.length + keyPart.length + billingPart.length + 200;
}

function lookupFrom({ lookup, keyRecord, billingRecord, scopes }: NewLookup): Lookup {
  const key = readRecord('key', keyRecord);
  const billing = readRecord('billing', billingRecord);
  return {
    text: lookup,
    epoch: Number(readLookup(lookup).epoch),
    keyPart: copyOf(`${key.answerPart},"scopes":${scopesPart(`${key.scopeFlags}\x1f${scopes}`)}`),
    billingPart: copyOf(billing.answerPart),
    billingId: copyOf(billing.billingId),
    limitMicros: Number(billing.limitMicros),
    workspaceId: copyOf(key.workspaceId),
  };
}

// A string of its own: a string that was cut from another, or joined, points at that one, and each step costs a cache miss.
function copyOf(text: string): string {
  return Buffer.from(text).toString();
}

// Many keys have the same scopes. A list of scopes may be long, so few are remembered.
const LISTS_REMEMBERED = 1_000;
const scopesPart = memoize((text) => {
  const [flags = '', scopes = ''] = text.split('\x1f');
  const entries = splitScopes(scopes).flatMap((record, i) => {
    const { representation, scopeId } = readRecord('scope', record);
    return representation && scopeId ? [scopeEntryOf(representation, flagsOf(flags, i), scopeId)] : [];
  });
  return JSON.stringify(entries);
}, LISTS_REMEMBERED);
