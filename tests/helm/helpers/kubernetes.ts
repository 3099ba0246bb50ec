import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Manifest } from './chart.ts';

/** Checks manifests against the schemas of a version of Kubernetes, which refuse what they do not know. */
export function kubernetes(version: string) {
  const folder = join(process.env.TEST_KUBERNETES_SCHEMAS ?? '', `v${version}.0-local-strict`);
  const read = (file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Record<string, unknown>;
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema(read('_definitions.json'), '/api/_definitions.json');

  return {
    /** What is wrong with a manifest; nothing for kinds that an operator brings. */
    problems(manifest: Manifest): string[] {
      const { apiVersion, kind } = manifest;
      if (apiVersion.startsWith('monitoring.coreos.com/')) return [];
      const [group, number] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion];
      const name = [kind.toLowerCase(), group?.split('.', 1)[0], number].filter(Boolean).join('-');
      const validate = ajv.getSchema(name) ?? ajv.addSchema(read(`${name}.json`), name).getSchema(name)!;
      if (validate(manifest)) return [];
      return (validate.errors ?? []).map(
        ({ instancePath, message, params }) =>
          `${kind} ${manifest.metadata.name}${instancePath}: ${message} ${JSON.stringify(params)}`,
      );
    },
  };
}
