import type { NewLookup } from './script-protocol.ts';

// What calls cost Redis, in μs of one machine. Only how they compare counts: by these figures teams share a Redis that is busy
// (docs/decisions/teams-take-turns.md).

const KNOWN = 9;
const UNKNOWN = 6;
// Lua hashes each byte of a text that it gets, and again in what it cuts from it.
const PER_BYTE = 0.0025;
const PER_SCOPE = 0.7;

/** What a call is expected to cost: by its size, and whether it brings a lookup. */
export function costOfCall(bytes: number, isKnown: boolean): number {
  return KNOWN + PER_BYTE * bytes + (isKnown ? 0 : UNKNOWN + PER_BYTE * bytes);
}

/** What the records of a lookup turn out to cost beyond that. */
export function costOfLookup({ keyRecord, billingRecord, scopes }: NewLookup): number {
  return PER_BYTE * (keyRecord.length + billingRecord.length) + PER_SCOPE * (scopes.length - 1);
}
