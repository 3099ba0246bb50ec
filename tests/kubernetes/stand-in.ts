import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from './cluster.ts';

const PAUSE_MS = 100;

type Pod = {
  metadata: { namespace: string; name: string; labels?: Record<string, string>; ownerReferences?: { kind: string }[] };
  status: { phase: string };
};
type Service = {
  metadata: { namespace: string; name: string };
  spec: { type: string };
  status: { loadBalancer: { ingress?: object[] } };
};
type List<T> = { items: T[] };

/** What was seen in a namespace: the programs in the order in which their first pods came, and the fewest ready pods of verify. */
export type Seen = { programs: string[]; fewestVerify: number };

/**
 * Stands in for nodes and for a cloud, and runs nothing: it says of each pod that it is ready (of a job's, that it has succeeded), and gives
 * each load balancer an address.
 */
export function standInForNodes({ ask }: Cluster) {
  const seen = new Map<string, Seen>();
  const of = (namespace: string): Seen => {
    const one = seen.get(namespace) ?? { programs: [], fewestVerify: Infinity };
    seen.set(namespace, one);
    return one;
  };
  let stopped = false;

  async function look(): Promise<void> {
    const { items: pods } = await ask<List<Pod>>('GET', '/api/v1/pods');
    const ready = new Map<string, number>();
    for (const { metadata, status } of pods) {
      const { namespace, name, labels = {}, ownerReferences: [owner] = [] } = metadata;
      const program = labels['app.kubernetes.io/component'] ?? '';
      const { programs } = of(namespace);
      if (!programs.includes(program)) programs.push(program);
      if (program === 'verify' && status.phase === 'Running') ready.set(namespace, (ready.get(namespace) ?? 0) + 1);
      if (status.phase !== 'Pending') continue;
      const conditions = ['Ready', 'ContainersReady'].map((type) => ({ type, status: 'True' }));
      const next = owner?.kind === 'Job' ? { phase: 'Succeeded' } : { phase: 'Running', conditions };
      await patch(`/api/v1/namespaces/${namespace}/pods/${name}/status`, { status: next });
    }
    for (const [namespace, one] of seen) one.fewestVerify = Math.min(one.fewestVerify, ready.get(namespace) ?? 0);

    const { items: services } = await ask<List<Service>>('GET', '/api/v1/services');
    for (const { metadata, spec, status } of services) {
      if (spec.type !== 'LoadBalancer' || status.loadBalancer.ingress) continue;
      const path = `/api/v1/namespaces/${metadata.namespace}/services/${metadata.name}/status`;
      await patch(path, { status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } } });
    }
  }

  // What was deleted meanwhile is not there any more.
  const patch = (path: string, body: object) =>
    ask('PATCH', path, body).catch((error: Error) => {
      if (!error.message.includes(': 404 ')) throw error;
    });

  const running = (async () => {
    while (!stopped) {
      await look();
      await sleep(PAUSE_MS);
    }
  })();
  return {
    /** What was seen in a namespace since the last time. */
    takeSeen(namespace: string): Seen {
      const one = of(namespace);
      seen.delete(namespace);
      return one;
    },
    /** Rejects when it can't go on. */
    running,
    async stop() {
      stopped = true;
      await running;
    },
  };
}
