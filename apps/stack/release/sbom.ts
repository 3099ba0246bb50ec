// The software bill of materials: make sbom
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../process/home.ts';

type Component = { 'bom-ref': string; name: string; version?: string; type?: string; purl?: string };
type Bom = {
  serialNumber?: string;
  metadata: { timestamp: string; component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
};
type Lockfile = {
  packages: Record<string, { name?: string; version: string; dev?: boolean; optional?: boolean; link?: boolean }>;
};

/**
 * The bill of materials, in CycloneDX, of what is shipped: npm makes it from the lockfile. npm puts its time, a random number
 * and the names of folders into each; here they follow from the commit, so that one commit gives the same bytes anywhere.
 */
export function makeSbom(folder: string, committedSeconds: number): string {
  // With `--omit dev` npm 11 leaves out whatever a development package needs too: 87 of 145, pino among them.
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'];
  const text = execFileSync('npm', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const { serialNumber: _, ...bom } = JSON.parse(text) as Bom;
  const shipped = shippedOf(JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as Lockfile);
  const own = bom.metadata.component['bom-ref'];
  bom.components = bom.components.filter((one) => shipped.has(one['bom-ref']));
  bom.dependencies = bom.dependencies
    .filter(({ ref }) => ref === own || shipped.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => shipped.has(one)) }));
  bom.metadata.timestamp = new Date(committedSeconds * 1000).toISOString();
  for (const component of [bom.metadata.component, ...bom.components]) {
    const reference = component['bom-ref'];
    component.name = reference.slice(0, reference.lastIndexOf('@'));
  }
  bom.components.push(...otherClients(bom.metadata.component.version ?? ''));
  return `${JSON.stringify(bom, null, 2)}\n`;
}

/** The clients that npm does not know. They have no packages inside. */
function otherClients(version: string): Component[] {
  const clients = [
    { name: 'keytally', purl: `pkg:pypi/keytally@${version}` },
    { name: 'keytally.dev/keytally', version: `v${version}`, purl: `pkg:golang/keytally.dev/keytally@v${version}` },
  ];
  return clients.map((one) => ({ 'bom-ref': one.purl, type: 'library', version, ...one }));
}

/** `name@version` of what `npm ci --omit=dev --omit=optional` installs, as the Dockerfile has it, and of our own packages. `npm sbom --omit` leaves out what development needs too. */
function shippedOf({ packages }: Lockfile): Set<string> {
  const shipped = Object.entries(packages).filter(
    ([path, { dev, optional, link }]) => path && !dev && !optional && !link,
  );
  return new Set(
    shipped.map(
      ([path, { name, version }]) => `${name ?? path.slice(path.lastIndexOf('node_modules/') + 13)}@${version}`,
    ),
  );
}

if (import.meta.main) {
  const seconds = execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: checkout, encoding: 'utf8' });
  const folder = join(checkout, 'release');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'keytally.cdx.json');
  writeFileSync(file, makeSbom(checkout, Number(seconds)));
  console.log(`the bill of materials is in ${file}`);
}
