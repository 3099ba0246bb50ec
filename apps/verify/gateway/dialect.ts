import { ApiError } from '../../../shared/contract/errors.ts';

/** Which headers of a gateway describe the end client's request, and which refusals it passes on. */
export type Dialect = {
  /** Headers with method and path. Without them: the method of the check request, and the path that the gateway appended. */
  original?: { method: string; uri: string };
  /** The header with the client's address; it counts only from trusted proxies. */
  address: string;
  /** The gateway passes on 401 and 403 alone: it gets 403 instead of 402 and 429, which `X-Keytally-Refused-With` says. */
  only401And403?: true;
};

const original = { original: { method: 'x-original-method', uri: 'x-original-uri' }, address: 'x-real-ip' };
const forwarded = { original: { method: 'x-forwarded-method', uri: 'x-forwarded-uri' }, address: 'x-forwarded-for' };
const appended = { address: 'x-forwarded-for' };

const dialects: Record<string, Dialect> = {
  nginx: { ...original, only401And403: true },
  envoy: appended,
  traefik: forwarded,
  caddy: forwarded,
  apisix: forwarded,
  haproxy: original,
  kong: forwarded,
  plain: appended,
};

export const dialectNames = Object.keys(dialects);

/** Finds a dialect by its name in a gateway's address; throws an error that lists them if it is unknown. */
export function dialectOf(name: string): Dialect {
  if (Object.hasOwn(dialects, name)) return dialects[name]!;
  const message = `must be one of ${dialectNames.join(', ')}`;
  throw new ApiError('invalid_request', {
    message: `The gateway's address is /gateway/<dialect>/<policy>/; the dialect ${message}.`,
    details: [{ path: 'dialect', message }],
  });
}
