import { ApiError } from '../../../shared/contract/errors.ts';

/** In which headers a gateway itself says what it was asked, and what it makes of a refusal. */
export type Dialect = {
  /** Absent: the method of the request to us, and the path behind the policy, which the gateway has appended. */
  asked?: { method: string; uri: string };
  /** The header with the client's address; it counts from trusted proxies alone. */
  address: string;
  /** Knows no other refusals than 401 and 403: 429 is 403, and `X-Keytally-Status` says why. */
  only401And403?: true;
};

const original = { asked: { method: 'x-original-method', uri: 'x-original-uri' }, address: 'x-real-ip' };
const forwarded = { asked: { method: 'x-forwarded-method', uri: 'x-forwarded-uri' }, address: 'x-forwarded-for' };
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

/** The dialect of a name in a gateway's address; a 400 says which there are. */
export function dialectOf(name: string): Dialect {
  if (Object.hasOwn(dialects, name)) return dialects[name]!;
  const message = `must be one of ${dialectNames.join(', ')}`;
  throw new ApiError('invalid_request', {
    message: `The gateway's address is /gateway/<dialect>/<policy>/; the dialect ${message}.`,
    details: [{ path: 'dialect', message }],
  });
}
