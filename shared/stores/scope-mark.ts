import { hash } from 'node:crypto';
import { memoize } from '../runtime/memoize.ts';

/** How long every mark is. */
export const MARK_LENGTH = 16;

/**
 * What the verify script knows a scope by: 96 bits of the SHA-256 of its representation. Marks are short and of one length,
 * so a question for many scopes, each with a long representation, costs little to read.
 */
export const scopeMark = memoize((representation) => hash('sha256', representation, 'base64url').slice(0, MARK_LENGTH));
