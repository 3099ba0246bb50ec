/** Gives a request's header by its lower-case name. */
export type HeaderOf = (name: string) => string | null | undefined;

/**
 * The API keys that a request carries; it should be one. A key may come as `Authorization: Bearer`, as `x-api-key`, or in
 * `Authorization: Basic` as the user name or the password, with the other one empty. The same key twice counts as one. A
 * header that was sent twice arrives as one value with a comma.
 */
export function keysOf(header: HeaderOf): string[] {
  const [, scheme = '', credentials = ''] = /^\s*(\S+)\s+(.*?)\s*$/.exec(header('authorization') ?? '') ?? [];
  const found = (header('x-api-key') ?? '').split(',').map((key) => key.trim());
  if (/^bearer$/i.test(scheme)) found.push(credentials);
  if (/^basic$/i.test(scheme)) found.push(...(/^([^:]*):(.*)$/.exec(decoded(credentials))?.slice(1) ?? []));
  return [...new Set(found.filter(Boolean))];
}

function decoded(base64: string): string {
  try {
    return atob(base64);
  } catch {
    return '';
  }
}
