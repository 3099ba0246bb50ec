import type { Answer, World } from '../../../../tests/helpers/world.ts';

/** What a browser says of a request of a page of the same origin. */
export const own = { 'Sec-Fetch-Site': 'same-origin' };
/** The same with the header that no page of another origin can send. */
export const marked = { ...own, 'X-Keytally-Session': '1' };

/** The cookie that an answer sets, as a request sends it back. */
export function cookieOf(answer: Answer): string {
  return answer.headers.get('set-cookie')!.split(';', 1)[0]!;
}

/** Calls by a cookie, without a token. */
export function callsByCookie(world: World) {
  return (cookie: string, method: string, path: string, body?: unknown, headers: Record<string, string> = marked) =>
    world.call(method, path, body, { token: null, headers: { Cookie: cookie, ...headers } });
}
