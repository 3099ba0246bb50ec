import type { Server } from 'node:http';
import type { Clock } from '../runtime/clock.ts';
import { fixedHeaders } from './headers.ts';
import { makeHttpServer } from './http-server.ts';
import { keepFor } from '../runtime/keep-for.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** Dependencies by name, each with a check that rejects or resolves to false while it is unavailable. */
export type Checks = Record<string, () => Promise<unknown>>;
export type ProbeAnswer = { status: number; type: string; text: string | Buffer; headers?: Record<string, string> };
export type Probe = (path: string) => Promise<ProbeAnswer | undefined>;

const CHECK_TIMEOUT_MS = 1_500;
// Rendering all metrics takes milliseconds, and a check asks a server: so often at most, however many ask. Readiness is
// younger than any restart of a server.
const METRICS_KEPT_MS = 1_000;
const READINESS_KEPT_MS = 100;

type ProbeOptions = {
  /** What it can't do without; all `checks`, if it is not told. */
  toServe?: Checks;
  readMetrics?: () => Promise<string>;
};

/**
 * Answers the paths that every program has, without a token: `/healthz` (the process is alive), `/readyz` (all its
 * dependencies answer), `/servingz` (those do without which it could serve nobody), `/metrics` (Prometheus). `undefined`
 * for any other path.
 */
export function makeProbes(metrics: Metrics, clock: Clock, checks: Checks, options: ProbeOptions = {}): Probe {
  const { toServe = checks, readMetrics = () => metrics.registry.metrics() } = options;
  const answers: Record<string, () => Promise<ProbeAnswer>> = {
    '/healthz': async () => json(200, { status: 'ok' }),
    '/readyz': keepFor(clock, READINESS_KEPT_MS, () => readiness(clock, checks, 'ready')),
    '/servingz': keepFor(clock, READINESS_KEPT_MS, () => readiness(clock, toServe, 'serving')),
    '/metrics': keepFor(clock, METRICS_KEPT_MS, async () => {
      return { status: 200, type: metrics.registry.contentType, text: Buffer.from(await readMetrics()) };
    }),
  };
  return async (path) => answers[path]?.();
}

/** The probes that a server answers on the port of its clients: with a port for the others, whether it is alive alone. */
export function onClientPort(probe: Probe, opsPort: number | undefined): Probe {
  if (opsPort === undefined) return probe;
  return async (path) => (path === '/healthz' ? probe(path) : undefined);
}

/** A server with only the probes. */
export function makeProbeServer(probe: Probe): Server {
  return makeHttpServer((request, response) => {
    probe((request.url ?? '').split('?', 1)[0]!)
      .then((answer) => {
        const { status, type, text } = answer ?? { status: 404, type: 'text/plain', text: 'not found\n' };
        response.writeHead(status, {
          ...fixedHeaders,
          'Content-Type': type,
          'Content-Length': Buffer.byteLength(text),
        });
        response.end(request.method === 'HEAD' ? undefined : text);
      })
      .catch((error: unknown) => response.destroy(error as Error));
  });
}

/** Whether all dependencies answer. */
export async function allReady(clock: Clock, checks: Checks): Promise<boolean> {
  return (await readiness(clock, checks, 'ready')).status === 200;
}

async function readiness(clock: Clock, checks: Checks, what: 'ready' | 'serving'): Promise<ProbeAnswer> {
  const asked = Object.entries(checks).map(async ([name, check]) => {
    const answer = await withTimeout(clock, CHECK_TIMEOUT_MS, check()).catch(() => false);
    return [name, answer === false ? 'away' : 'ok'] as const;
  });
  const states = Object.fromEntries(await Promise.all(asked));
  const ready = !Object.values(states).includes('away');
  return json(ready ? 200 : 503, { status: ready ? what : `not ${what}`, checks: states });
}

function json(status: number, value: unknown): ProbeAnswer {
  return { status, type: 'application/json', text: JSON.stringify(value) };
}
