import { randomUUID } from 'node:crypto';
import { holdsSecret } from '../values/secrets.ts';

/** The caller's `X-Request-Id` if it is safe to return and log: short, printable, no secret. Else a new one. */
export function requestId(given: string | undefined): string {
  return given && /^[\x21-\x7e]{1,128}$/.test(given) && !holdsSecret(given) ? given : randomUUID();
}
