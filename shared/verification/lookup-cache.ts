import type { LookedUp } from './script-batches.ts';
import { flagsOf, lastFields, unpack } from '../stores/keyspace.ts';
import { memoize } from '../runtime/memoize.ts';
import { scopeEntryOf } from '../contract/scope-flags.ts';

/** What verify.lua found of a key, and the parts of answers that stay the same while it holds. */
export type Finding = {
  /** As verify.lua gave it and wants it back: it is what tells whether it still holds. */
  text: string;
  epoch: number;
  /** Ready-made parts of answers: of the key with its scopes, and of the billing record ('' without one). */
  head: string;
  billingPart: string;
  billingId: string;
  /** The most that may be used of the billing record, in micro-credits. */
  limitMicros: number;
  workspaceId: string;
};

/** What stands for a finding where there is none. */
export const NO_FINDING = '\0'.repeat(9);

// Of findings together, each with its question: some 20,000 with small metadata.
const MOST_CHARACTERS = 16_000_000;
// What is longer, with a long list of addresses, is sooner looked up anew than sent.
const LONGEST_TEXT = 4_096;

/** Keeps findings by the question and the hash of the key text that they were given for; forgets all when full. */
export function keepFindings() {
  const kept = new Map<string, Map<string, Finding>>();
  let characters = 0;

  function add(question: string, keyHash: string, lookedUp: LookedUp): Finding {
    const made = findingFrom(lookedUp);
    if (made.text.length > LONGEST_TEXT) return made;
    const before = get(question, keyHash);
    characters += sizeOf(question, made) - (before ? sizeOf(question, before) : 0);
    if (characters > MOST_CHARACTERS) {
      kept.clear();
      characters = sizeOf(question, made);
    }
    const same = kept.get(question);
    if (same) same.set(keyHash, made);
    else kept.set(question, new Map([[keyHash, made]]));
    return made;
  }

  function get(question: string, keyHash: string): Finding | undefined {
    return kept.get(question)?.get(keyHash);
  }

  return { get, add };
}

// Its ids, hash and numbers count as 200.
function sizeOf(question: string, { text, head, billingPart }: Finding): number {
  return question.length + text.length + head.length + billingPart.length + 200;
}

function findingFrom({ finding, record, settings, scopes }: LookedUp): Finding {
  const [masks, keyPart] = lastFields(record);
  const [, billingPart] = lastFields(settings);
  const [, billingId = '', limitMicros = ''] = unpack(settings);
  return {
    text: finding,
    epoch: Number(unpack(finding)[0]),
    head: copyOf(`${keyPart},"scopes":${heldScopes(`${masks}\x1f${scopes}`)}`),
    billingPart: copyOf(billingPart),
    billingId: copyOf(billingId),
    limitMicros: Number(limitMicros),
    workspaceId: copyOf(unpack(record)[3] ?? ''),
  };
}

// In one piece: what is cut from a text, or put together of several, points at those, and each costs a cache miss.
function copyOf(text: string): string {
  return Buffer.from(text).toString();
}

// Few sets of scopes are held by many keys; one may be long.
const SETS_REMEMBERED = 1_000;
const heldScopes = memoize((text) => {
  const [masks = '', records = ''] = text.split('\x1f');
  const scopes = records.split('\x1e').flatMap((record, i) => {
    const [, representation, id] = unpack(record);
    return representation && id ? [scopeEntryOf(representation, flagsOf(masks, i), id)] : [];
  });
  return JSON.stringify(scopes);
}, SETS_REMEMBERED);
