import { randomUUID } from 'node:crypto';
import { invalidField } from '../contract/errors.ts';
import type { Config } from '../runtime/variables.ts';
import { holdsSecret } from '../values/secrets.ts';

// What headers of requests say, and those that every answer has.

export type FixedHeaders = Readonly<Record<string, string>>;
/** What says whether clients speak TLS. */
export type TlsConfig = Pick<Config, 'TLS_CERTIFICATE_PATH' | 'TLS_BY_PROXY'>;

/** The headers of every answer. One that may be cached overrides its `Cache-Control`. */
export const fixedHeaders: FixedHeaders = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' };

/**
 * Those headers, and where clients speak TLS, with this program or with a proxy before it, a year in which a browser uses
 * nothing else for this host. Not for its subdomains, which may be another's.
 */
export function headersFor(config: TlsConfig): FixedHeaders {
  return isOverTls(config) ? { ...fixedHeaders, 'Strict-Transport-Security': 'max-age=31536000' } : fixedHeaders;
}

/** Whether clients speak TLS, with this program or with a proxy before it. */
export function isOverTls(config: TlsConfig): boolean {
  return config.TLS_CERTIFICATE_PATH !== '' || config.TLS_BY_PROXY;
}

/** The caller's `X-Request-Id` if it is safe to return and log: short, printable, no secret. Else a new one. */
export function requestId(given: string | undefined): string {
  return given && /^[\x21-\x7e]{1,128}$/.test(given) && !holdsSecret(given) ? given : randomUUID();
}

/** The Idempotency-Key of a request; undefined when it has none. An unusable one is a 400: it would silently protect nothing. */
export function idempotencyKey(given: string | undefined): string | undefined {
  if (given === undefined || /^[\x21-\x7e][\x20-\x7e]{0,254}$/.test(given)) return given;
  throw invalidField('Idempotency-Key', 'must be 1 to 255 printable ASCII characters');
}

/** Whether an If-None-Match names this tag (RFC 9110). A proxy that packs an answer again marks its tag as weak. */
export function namesTag(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch.split(',').some((one) => {
    const tag = one.trim();
    return tag === '*' || tag === etag || (tag.startsWith('W/') && tag.slice(2) === etag);
  });
}
