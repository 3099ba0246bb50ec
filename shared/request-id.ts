import { newUuid } from './ids.ts';

/** The caller's `X-Request-Id` where it is fit to be echoed and logged, else a new one. */
export function requestId(given: string | undefined): string {
  return given && /^[\x21-\x7e]{1,128}$/.test(given) ? given : newUuid().toString();
}
