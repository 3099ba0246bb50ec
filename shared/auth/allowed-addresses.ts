import type { Caller } from '../contract/caller.ts';
import { ApiError } from '../contract/errors.ts';
import { addressBits, blockBits } from '../values/ip.ts';

/** A list of addresses and blocks as `allowedBlocks` of a caller; an empty list allows every address. */
export function blocksOf(allowedIps: readonly string[]): readonly string[] | undefined {
  return allowedIps.length === 0 ? undefined : allowedIps.map(bitsOf);
}

/** Throws 403 unless the caller's token may be used from the address. */
export function requireAllowed({ allowedBlocks }: Caller, address: string): void {
  if (allowedBlocks === undefined) return;
  const bits = addressBits(address);
  if (bits === undefined || !allowedBlocks.some((block) => bits.startsWith(block)))
    throw new ApiError('address_not_allowed');
}

/** The entries of a list that another list does not cover. An empty list covers everything, and only such a list covers it. */
export function notCovered(wanted: readonly string[], by: readonly string[]): readonly string[] {
  const blocks = blocksOf(by);
  return blocks === undefined ? [] : wanted.filter((text) => !blocks.some((block) => bitsOf(text).startsWith(block)));
}

// A block that cannot be read covers no address.
function bitsOf(text: string): string {
  return blockBits(text) ?? 'none';
}
