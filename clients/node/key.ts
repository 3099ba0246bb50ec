/** Gives a request's header by its lower-case name. */
export type HeaderOf = (name: string) => string | null | undefined;

/**
 * The API keys that a request carries; it should be one. A key may come as `Authorization: Bearer`, as `x-api-key`, or in
 * `Authorization: Basic` as the user name or the password, with the other one empty. The same key twice counts as one. A
 * header that was sent twice arrives as one value with a comma.
 */
export function keysOf(header: HeaderOf): string[] {
  return keysIn([header('authorization') ?? ''], header('x-api-key') ?? '');
}

/**
 * The same for headers that were taken from the request already. Strangers write both: no pattern here may backtrack, and
 * each character is read once.
 */
export function keysIn(authorizations: readonly string[], apiKeys: string): string[] {
  const found = apiKeys.split(',').map((key) => key.trim());
  for (const authorization of authorizations) found.push(...keysInAuthorization(authorization.trim()));
  return [...new Set(found.filter(Boolean))];
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
