import type { Server } from 'node:http';
import { makeHttpServer } from './http-server.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** Dependencies by name, each with a check that rejects or resolves to false while it is unavailable. */
export type Checks = Record<string, () => Promise<unknown>>;
export type ProbeAnswer = { status: number; type: string; text: string; headers?: Record<string, string> };

const CHECK_TIMEOUT_MS = 1_500;

/**
 * Answers the paths that every program has, without a token: `/healthz` (the process is alive), `/readyz` (its
 * dependencies answer), `/metrics` (Prometheus). `undefined` for any other path.
 */
export function makeProbes(metrics: Metrics, checks: Checks, readMetrics = () => metrics.registry.metrics()) {
  return async function probe(path: string): Promise<ProbeAnswer | undefined> {
    switch (path) {
      case '/healthz':
        return json(200, { status: 'ok' });
      case '/readyz':
        return readiness(checks);
      case '/metrics':
        return { status: 200, type: metrics.registry.contentType, text: await readMetrics() };
      default:
        return undefined;
    }
  };
}

/** A server with only the probes, for programs that serve nothing else. */
export function makeProbeServer(probe: (path: string) => Promise<ProbeAnswer | undefined>): Server {
  return makeHttpServer((request, response) => {
    probe((request.url ?? '').split('?', 1)[0]!)
      .then((answer) => {
        const { status, type, text } = answer ?? { status: 404, type: 'text/plain', text: 'not found\n' };
        response.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(text) });
        response.end(request.method === 'HEAD' ? undefined : text);
      })
      .catch((error: unknown) => response.destroy(error as Error));
  });
}

/** Whether all dependencies answer. */
export async function allReady(checks: Checks): Promise<boolean> {
  const answers = await askAll(checks);
  return answers.every(([, ready]) => ready);
}

async function readiness(checks: Checks): Promise<ProbeAnswer> {
  const answers = await askAll(checks);
  const ready = answers.every(([, ready]) => ready);
  const states = Object.fromEntries(answers.map(([name, ready]) => [name, ready ? 'ok' : 'away']));
  return json(ready ? 200 : 503, { status: ready ? 'ready' : 'not ready', checks: states });
}

async function askAll(checks: Checks): Promise<[name: string, ready: boolean][]> {
  return Promise.all(
    Object.entries(checks).map(async ([name, check]): Promise<[string, boolean]> => {
      const answer = await withTimeout(CHECK_TIMEOUT_MS, check()).catch(() => false);
      return [name, answer !== false];
    }),
  );
}

function json(status: number, value: unknown): ProbeAnswer {
  return { status, type: 'application/json', text: JSON.stringify(value) };
}
