import { hash } from 'node:crypto';
import { flagBits, type Flags } from '../contract/schemas.ts';
import { memoize } from '../runtime/memoize.ts';
import { flagCharacter, flagsOf } from './records.ts';

const MARK_LENGTH = 16;

/**
 * What the verify script knows a scope by: 96 bits of the SHA-256 of its representation. Marks are short and of one length,
 * so a question for many scopes, each with a long representation, costs little to read.
 */
export const scopeMark = memoize((representation) => hash('sha256', representation, 'base64url').slice(0, MARK_LENGTH));

/**
 * Wanted scopes, each once as its mark and all of its flags, in one order: so one lookup answers them, however they were
 * asked for.
 */
export function packWantedScopes(scopes: readonly ({ representation: string } & Flags)[]): string {
  const [first] = scopes;
  if (!first) return '';
  if (scopes.length === 1) return packWantedScope(first);
  const packed: string[] = [];
  for (const entry of scopes.map(packWantedScope).toSorted()) {
    const before = packed.at(-1);
    const mark = entry.slice(0, MARK_LENGTH);
    if (!before?.startsWith(mark)) packed.push(entry);
    else packed[packed.length - 1] = mark + flagCharacter(flagsOf(before, MARK_LENGTH) | flagsOf(entry, MARK_LENGTH));
  }
  return packed.join('');
}

function packWantedScope(scope: { representation: string } & Flags): string {
  return scopeMark(scope.representation) + flagCharacter(flagBits(scope));
}
