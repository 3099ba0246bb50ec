import { randomUUID } from 'node:crypto';
import { holdsSecret } from '../values/secrets.ts';

/** The caller's `X-Request-Id` where it is fit to be echoed and logged, which no secret is; else a new one. */
export function requestId(given: string | undefined): string {
  return given && /^[\x21-\x7e]{1,128}$/.test(given) && !holdsSecret(given) ? given : randomUUID();
}
