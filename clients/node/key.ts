/** Gives a request's header by its lower-case name. */
export type HeaderOf = (name: string) => string | null | undefined;

/**
 * The API keys that a request carries; it should be one. A key may come as `Authorization: Bearer`, as `x-api-key`, or in
 * `Authorization: Basic` as the user name or the password, with the other one empty. The same key twice counts as one. A
 * header that was sent twice arrives as one value with a comma; but of several `Authorization` headers Node shows the first
 * alone, and what stands behind it may read another: give Node's `rawHeaders` too.
 */
export function keysOf(header: HeaderOf, rawHeaders: readonly string[] = []): string[] {
  // Strangers write all of this: no pattern here may backtrack, and each character is read once.
  const found = (header('x-api-key') ?? '').split(',').map((key) => key.trim());
  const all = rawHeaders.filter((_, i) => i % 2 === 1 && isAuthorization(rawHeaders[i - 1]!));
  const authorizations = all.length > 1 ? all : [header('authorization') ?? ''];
  for (const authorization of authorizations) found.push(...keysInAuthorization(authorization.trim()));
  return [...new Set(found.filter(Boolean))];
}

function isAuthorization(name: string): boolean {
  return name.length === 13 && /^authorization$/i.test(name);
}

function keysInAuthorization(authorization: string): string[] {
  const end = authorization.search(/\s/);
  if (end < 0) return [];
  const scheme = authorization.slice(0, end).toLowerCase();
  const credentials = authorization.slice(end).trim();
  if (scheme === 'bearer') return [credentials];
  return scheme === 'basic' ? userAndPassword(credentials) : [];
}

function userAndPassword(base64: string): string[] {
  let text: string;
  try {
    text = atob(base64);
  } catch {
    return [];
  }
  const colon = text.indexOf(':');
  return colon < 0 ? [] : [text.slice(0, colon), text.slice(colon + 1)];
}
