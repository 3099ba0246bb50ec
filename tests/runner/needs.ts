import { ensurePrometheus } from '../../apps/stack/servers/prometheus.ts';
import { ensurePython } from '../../apps/stack/servers/python.ts';
import { ensureEnvoy } from './envoy.ts';
import { ensureGo } from './go.ts';
import { ensureHelm } from './helm.ts';
import { needsKafka, startTestKafka } from './kafka.ts';
import { ensureOlder } from './older.ts';
import { ensurePackaged, packaged } from './packaged.ts';

type Say = (line: string) => void;

/** Something that some test files need besides the servers. `start` gives what is added to their environment. */
export type Need = {
  what: string;
  of(file: string): boolean;
  start(folder: string, say: Say): Promise<Record<string, string>>;
};

// By what stands before `.test.ts` in the name of a file.
const installed: Record<string, { what: string; ensure(say: Say): Promise<Record<string, string> | void> }> = {
  envoy: { what: 'Envoy', ensure: async (say) => ({ TEST_ENVOY: await ensureEnvoy(say) }) },
  helm: { what: 'Helm and the schemas of Kubernetes', ensure: ensureHelm },
  prometheus: { what: 'Prometheus', ensure: ensurePrometheus },
  older: { what: 'older Node and TypeScript', ensure: ensureOlder },
  go: { what: 'Go', ensure: ensureGo },
  python: { what: 'Python', ensure: ensurePython },
};
for (const [name, { what }] of Object.entries(packaged))
  installed[name] = {
    what,
    ensure: async (say) => ({
      [`TEST_${name.toUpperCase()}`]: await ensurePackaged(name as keyof typeof packaged, say),
    }),
  };

export const needs: Need[] = [
  { what: 'Kafka', of: needsKafka, start: startTestKafka },
  ...Object.entries(installed).map(([name, { what, ensure }]) => ({
    what,
    of: (file: string) => file.endsWith(`.${name}.test.ts`),
    start: async (_folder: string, say: Say) => (await ensure(say)) ?? {},
  })),
];
