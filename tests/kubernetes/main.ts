// Applies the chart, for each example, to a real API server without nodes: node tests/kubernetes/main.ts [--only PART-OF-A-NAME]
import '../../shared/runtime/require-node.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { makeCheckout } from '../compose/helpers/checkout.ts';
import { examples } from '../helm/helpers/chart.ts';
import { ensureHelm } from '../runner/helm.ts';
import { runInTestFolder } from '../runner/servers.ts';
import { applyExample } from './apply.ts';
import { startCluster } from './cluster.ts';
import { ensureControlPlane } from './programs.ts';
import { standInForNodes } from './stand-in.ts';

const { values } = parseArgs({ options: { only: { type: 'string', default: '' } } });

await runInTestFolder(async (folder) => {
  const wanted = examples.filter((name) => name.includes(values.only));
  if (wanted.length === 0) throw new StackError(`there is no example like ${values.only}: ${examples.join(', ')}`);
  const programs = await ensureControlPlane(console.log);
  const { TEST_HELM: helm = '' } = await ensureHelm(console.log);
  const cluster = await startCluster(join(folder, 'cluster'), programs);
  const nodes = standInForNodes(cluster);
  try {
    const secrets = makeSecrets(join(folder, 'checkout'));
    for (const file of programs.operatorKinds) await cluster.run(programs.kubectl, ['create', '-f', file]);
    for (const example of wanted) {
      const applied = applyExample({ cluster, nodes, helm, kubectl: programs.kubectl, example, secrets });
      console.log(await Promise.race([applied, nodes.running.then(() => '')]));
    }
  } finally {
    await nodes.stop().finally(() => cluster.stop());
  }
});

/** The secrets of `make secrets`, and those that examples name beside them; gives their folder. */
function makeSecrets(folder: string): string {
  mkdirSync(folder, { recursive: true });
  const { status, err } = makeCheckout(folder).run('secrets');
  if (status !== 0) throw new StackError(err);
  for (const name of ['vault_token', 'otlp_headers']) writeFileSync(join(folder, 'secrets', name), 'x');
  return join(folder, 'secrets');
}
