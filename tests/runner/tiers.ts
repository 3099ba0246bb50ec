import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * What a test file needs: 0 nothing, 1 stores (which the run installs), 2 our programs in its process; 3 is one of each whole (`.e2e.`), in continuous
 * integration; 4 runs before a release and by who touches the matter (`.release.`).
 */
export type Tier = 0 | 1 | 2 | 3 | 4;

export const tierNames = {
  0: 'functions',
  1: 'stores',
  2: 'the contract over HTTP',
  3: 'end to end',
  4: 'before a release',
} satisfies Record<Tier, string>;

/** The tier of a test file: the last two are named, the others follow from what it imports. */
export function tierOf(file: string): Tier {
  if (file.includes('.e2e.')) return 3;
  if (file.includes('.release.')) return 4;
  return needsOf(file, new Set());
}

function needsOf(file: string, seen: Set<string>): 0 | 1 | 2 {
  if (seen.has(file) || !existsSync(file)) return 0;
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  if (/\b(joinWorkspace|(join|make|spawn)World)\(/.test(text) && !file.endsWith('helpers/world.ts')) return 2;
  const own =
    /\bTEST_\w*(POSTGRES|REDIS|CLICKHOUSE)_/.test(text) ||
    /\b(connectTest|emptyPostgres\(|makeOwnRedis\(|ensureRedis\()/.test(text)
      ? 1
      : 0;
  // Of what it imports, helpers alone start something.
  const imported = [...text.matchAll(/^import [^;]*? from '(\.[^']+)';/gms)].map(([, path]) =>
    join(dirname(file), path!),
  );
  const helpers = imported.filter(
    (path) => /^tests\/|\/helpers\//.test(path) && !path.endsWith('tests/helpers/world.ts'),
  );
  return Math.max(own, ...helpers.map((path) => needsOf(path, seen))) as 0 | 1 | 2;
}
