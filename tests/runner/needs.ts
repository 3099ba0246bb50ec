import { ensurePrometheus } from '../../apps/stack/servers/prometheus.ts';
import { ensurePython } from '../../apps/stack/servers/python.ts';
import { ensureChromium } from './chromium.ts';
import { ensureEnvoy, ensureGateway } from './gateways.ts';
import { ensureGo } from './go.ts';
import { ensureHelm } from './helm.ts';
import { needsKafka, startTestKafka } from './kafka.ts';
import { ensureOlder } from './older.ts';
import { ensureSystemd } from './systemd.ts';
import { ensureWrk } from './wrk.ts';

/** Something that some test files need besides the servers. `start` gives what is added to their environment. */
export type Need = {
  what: string;
  of(file: string): boolean;
  start(folder: string, say: (line: string) => void): Promise<Record<string, string>>;
};

export const needs: Need[] = [
  { what: 'Kafka', of: needsKafka, start: startTestKafka },
  {
    what: 'Chromium',
    of: (file) => file.endsWith('chromium.test.ts'),
    start: async (_folder, say) => ({ TEST_CHROMIUM: await ensureChromium(say) }),
  },
  ...(['nginx', 'caddy', 'haproxy'] as const).map((name) => ({
    what: name,
    of: (file: string) => file.endsWith(`${name}.test.ts`),
    start: async (_folder: string, say: (line: string) => void) => ({
      [`TEST_${name.toUpperCase()}`]: await ensureGateway(name, say),
    }),
  })),
  {
    what: 'Envoy',
    of: (file) => file.endsWith('envoy.test.ts'),
    start: async (_folder, say) => ({ TEST_ENVOY: await ensureEnvoy(say) }),
  },
  {
    what: 'Helm and the schemas of Kubernetes',
    of: (file) => file.endsWith('helm.test.ts'),
    start: async (_folder, say) => ensureHelm(say),
  },
  {
    what: 'Prometheus',
    of: (file) => file.endsWith('prometheus.test.ts'),
    start: async (_folder, say) => ensurePrometheus(say).then(() => ({})),
  },
  {
    what: 'systemd-analyze',
    of: (file) => file.endsWith('systemd.test.ts'),
    start: async (_folder, say) => ensureSystemd(say).then(() => ({})),
  },
  {
    what: 'older Node and TypeScript',
    of: (file) => file.endsWith('older.test.ts'),
    start: (_folder, say) => ensureOlder(say),
  },
  {
    what: 'Go',
    of: (file) => file.endsWith('.go.test.ts'),
    start: (_folder, say) => ensureGo(say),
  },
  {
    what: 'Python',
    of: (file) => file.endsWith('python.test.ts'),
    start: (_folder, say) => ensurePython(say),
  },
  {
    what: 'wrk',
    of: (file) => file.endsWith('wrk.test.ts'),
    start: async (_folder, say) => ensureWrk(say).then(() => ({})),
  },
];
