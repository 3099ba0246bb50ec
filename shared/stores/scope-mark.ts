import { hash } from 'node:crypto';
import { flagBits, type Flags } from '../contract/scope-flags.ts';
import { memoize } from '../runtime/memoize.ts';
import { flagCharacter } from './records.ts';

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
  const [only] = scopes;
  if (!only) return '';
  if (scopes.length === 1) return scopeMark(only.representation) + flagCharacter(flagBits(only));
  const wanted = new Map<string, number>();
  for (const scope of scopes) {
    const mark = scopeMark(scope.representation);
    wanted.set(mark, (wanted.get(mark) ?? 0) | flagBits(scope));
  }
  const packed = Array.from(wanted, ([mark, bits]) => mark + flagCharacter(bits));
  return packed.toSorted().join('');
}
