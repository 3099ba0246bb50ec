import type { Config } from '../runtime/variables.ts';

export type FixedHeaders = Readonly<Record<string, string>>;
type TlsConfig = Pick<Config, 'TLS_CERTIFICATE_PATH' | 'TLS_BY_PROXY'>;

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
