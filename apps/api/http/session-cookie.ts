import { ApiError } from '../../../shared/contract/errors.ts';

/** Reads and writes the cookie of a session. */
export type SessionCookies = ReturnType<typeof makeSessionCookies>;

/** Reads a header by its lower-case name. */
export type HeaderOf = (name: string) => string | undefined;

/** The header of every change. No page of another origin can send it: a browser asks first, and CORS never allows it. */
const MARK = 'x-keytally-session';

/**
 * Cookies of sessions: the console's and the portal's have names of their own. Over TLS the name begins with `__Host-`: a browser then takes the cookie from this host alone, over TLS.
 */
export function makeSessionCookies(overTls: boolean, plainName: 'keytally' | 'keytally-portal' | 'keytally-provider') {
  const name = overTls ? `__Host-${plainName}` : plainName;
  const attributes = `Path=/; HttpOnly; SameSite=Strict${overTls ? '; Secure' : ''}`;

  function requireOwnPage(header: HeaderOf, changes: boolean): void {
    const isMarked = header(MARK) === '1';
    const own = isOwnOrigin(header, overTls);
    // Over plain HTTP a browser names no origin in a GET of the same one. The header then says that no other has sent it.
    if (own === false || (own === undefined && !isMarked)) throw new ApiError('session_elsewhere');
    if (changes && !isMarked) throw new ApiError('session_unmarked');
  }

  return {
    /**
     * The session's secret, if the request counts by its cookie: it has no Authorization header. Throws 403 unless a page of our
     * own origin sends it, with our header where it changes something.
     */
    read(method: string, header: HeaderOf): string | undefined {
      const secret = header('authorization') === undefined ? cookieOf(header('cookie'), name) : undefined;
      if (secret !== undefined) requireOwnPage(header, method !== 'GET' && method !== 'HEAD');
      return secret;
    },
    /** Throws 403 unless a page of our own origin sends the request, with our header: for signing in, without a cookie yet. */
    requireOwnPage: (header: HeaderOf) => requireOwnPage(header, true),
    /** The header that stores the secret in the browser. */
    store: (secret: string, maxAgeSeconds: number) => `${name}=${secret}; Max-Age=${maxAgeSeconds}; ${attributes}`,
    /** The header that removes it. */
    remove: () => `${name}=; Max-Age=0; ${attributes}`,
  };
}

// Undefined where the browser says nothing.
function isOwnOrigin(header: HeaderOf, overTls: boolean): boolean | undefined {
  const site = header('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin';
  const [origin, host] = [header('origin'), header('host')];
  if (origin === undefined) return undefined;
  return host !== undefined && (origin === `https://${host}` || (!overTls && origin === `http://${host}`));
}

function cookieOf(header: string | undefined, name: string): string | undefined {
  for (const one of header?.split(';') ?? []) {
    const [key, value] = one.split('=', 2);
    if (key?.trim() === name && value) return value.trim();
  }
  return undefined;
}
