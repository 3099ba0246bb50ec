import { connect } from 'node:net';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import type { Attack, Attacking, Target } from './attack.ts';
import { flood, type HttpCall } from './flood.ts';

const AT_ONCE = 50;
const SLOW_CONNECTIONS = 1_000;
const SLOW_EVERY_MS = 1_000;
// The largest file that is served: 1.5 MB where it is not taken compressed.
const SCRIPT = '/docs/swagger-ui-bundle.js';
const BLANKS = ' '.repeat(15_000);

/** Attacks of somebody without a key or a token. End clients of a gateway come with the gateway's token. */
export const ofStrangers = {
  'blanks in a header, through a gateway': floods(({ verifyUrl, token }) => ({
    url: `${verifyUrl}/gateway/nginx/`,
    headers: { 'X-Keytally-Token': token, Authorization: `Basic a${BLANKS}b` },
  })),
  'gateway policies without a token': floods(({ verifyUrl }, n) => ({
    url: `${verifyUrl}/gateway/nginx/usage=0.${String(n).padStart(6, '0').slice(-6)},scope=${'s'.repeat(100)}${n}.read/`,
    headers: { 'X-Keytally-Token': 'nobody' },
  })),
  'the documents of verify': floods(({ verifyUrl }) => ({ url: `${verifyUrl}/docs` })),
  'the OpenAPI document of verify': floods(({ verifyUrl }) => ({ url: `${verifyUrl}/openapi.json` })),
  'the script of the documents of verify': floods(({ verifyUrl }) => ({ url: verifyUrl + SCRIPT })),
  'the metrics of verify': floods(({ verifyUrl }) => ({ url: `${verifyUrl}/metrics` })),
  'the readiness of verify': floods(({ verifyUrl }) => ({ url: `${verifyUrl}/readyz` })),
  'unknown access tokens': floods(({ verifyUrl }, n) => ({
    url: verifyUrl + VERIFY_PATH,
    method: 'POST',
    headers: { Authorization: `Bearer kt_${String(n).padStart(40, '0')}` },
    body: { key: 'x' },
  })),
  'large bodies without a token': floods(({ verifyUrl }) => ({
    url: verifyUrl + VERIFY_PATH,
    method: 'POST',
    body: `[${'[{"a":'.repeat(2_500)}`,
  })),
  'long paths': floods(({ verifyUrl }, n) => ({ url: `${verifyUrl}/${'%2e%2e/'.repeat(2_000)}${n}` })),
  'many forwarded addresses': floods(({ verifyUrl }, n) => ({
    url: verifyUrl + VERIFY_PATH,
    method: 'POST',
    headers: { 'X-Forwarded-For': `10.0.0.${n % 256}, `.repeat(1_000) },
    body: {},
  })),
  'requests that never end': { by: 'stranger', prepare: async (target) => slowly(target) },
  'the JWKS of the api': floods(({ apiUrl }) => ({ url: `${apiUrl}/.well-known/jwks.json` })),
  'the documents of the api': floods(({ apiUrl }) => ({ url: `${apiUrl}/docs` })),
  'the OpenAPI document of the api': floods(({ apiUrl }) => ({ url: `${apiUrl}/openapi.json` })),
  'the script of the documents of the api': floods(({ apiUrl }) => ({ url: apiUrl + SCRIPT })),
} as const satisfies Record<string, Attack>;

function floods(make: (target: Target, n: number) => HttpCall): Attack {
  return { by: 'stranger', prepare: async (target) => (signal) => flood(signal, AT_ONCE, (n) => make(target, n)) };
}

// Each connection sends one more byte of a header each second, and begins anew when it is closed.
function slowly({ verifyUrl }: Target): Attacking {
  const { hostname, port } = new URL(verifyUrl);
  return (signal) => {
    const open = () => {
      if (signal.aborted) return;
      const socket = connect(Number(port), hostname, () => socket.write('POST / HTTP/1.1\r\nX-Slow: '));
      const timer = setInterval(() => socket.write('a'), SLOW_EVERY_MS);
      socket.on('error', () => {});
      socket.on('data', () => {});
      socket.on('close', () => {
        clearInterval(timer);
        setTimeout(open, SLOW_EVERY_MS);
      });
    };
    for (let i = 0; i < SLOW_CONNECTIONS; i++) open();
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
  };
}
