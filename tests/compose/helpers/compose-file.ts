import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { readConfig } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { variables, type Variables } from '../../../shared/runtime/variables.ts';
import { checkout } from '../../../apps/stack/process/home.ts';

/** The parts of docker-compose.yml that the tests read. */
export interface ComposeFile {
  services: Record<string, Service>;
  networks: Record<string, { internal?: boolean } | null>;
  volumes: Record<string, unknown>;
  secrets: Record<string, { file: string }>;
}

export interface Service {
  image?: string;
  build?: string;
  user?: string;
  command?: string[];
  environment?: Record<string, string | number>;
  secrets?: string[];
  volumes?: string[];
  ports?: string[];
  networks?: string[];
  profiles?: string[];
  tmpfs?: string[];
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test?: string[]; disable?: boolean };
  deploy?: { resources: { limits: Record<string, string | number> } };
  [setting: string]: unknown;
}

export function readComposeFile(text = readFileSync(join(checkout, 'docker-compose.yml'), 'utf8')): ComposeFile {
  return parse(text, { merge: true }) as ComposeFile;
}

/** The services that run our image. */
export function ourServices(file: ComposeFile): [name: string, service: Service][] {
  return Object.entries(file.services).filter(([, service]) => service.build !== undefined);
}

/** The text as Compose reads it with nothing set: `${NAME:-default}` gives the default, `$$` a dollar. */
export function interpolate(text: string): string {
  return text.replace(/\$(?:\$|\{\w+:-([^}]*)\})/g, (_, fallback = '$') => fallback);
}

/**
 * Everything that is wrong with the environments of our services: variables that their programs don't read, and problems that
 * the programs' own check finds. `secrets` has the content of each secret.
 */
export function environmentProblems(file: ComposeFile, secrets: Record<string, string>): string[] {
  return ourServices(file).flatMap(([name, service]) => {
    const reads = variablesRead(service);
    if (typeof reads === 'string') return [`${name}: ${reads}`];
    const environment = service.environment ?? {};
    const unknown = Object.keys(environment).filter((one) => !(one.replace(/_FILE$/, '') in reads));
    const given = Object.entries(environment).map(([one, value]) => [one, interpolate(String(value))] as const);
    return [
      ...unknown.map((one) => `its program does not read ${one}`),
      ...Object.entries(environment).flatMap(([one, value]) => interpolationProblem(one, String(value))),
      ...given.flatMap(([one, value]) => secretProblem(one, value, service)),
      ...configProblem(reads, Object.fromEntries(given), secrets),
    ].map((problem) => `${name}: ${problem}`);
  });
}

/** The variables that a service's program reads, found in its source; or why they can't be found. */
function variablesRead(service: Service): Variables | string {
  const { command = [] } = service;
  const [runtime] = command;
  const entry = command.at(-1) ?? '';
  if (runtime !== 'node') return `its command is not node, but ${runtime}`;
  let source: string;
  try {
    source = readFileSync(join(checkout, entry), 'utf8');
  } catch {
    return `${entry} does not exist`;
  }
  const list = /(?:readConfigOrExit\(programs\.|await run\(\s*')(\w+)/.exec(source)?.[1];
  const reads = list && (programs as Record<string, Variables>)[list];
  return reads || `${entry} does not read one of the lists in shared/runtime/programs.ts`;
}

// A variable for the whole file has the name and the default that docs/reference/configuration.md gives.
function interpolationProblem(variable: string, value: string): string[] {
  const [, name, fallback] = /^\$\{(\w+):-([^}]*)\}$/.exec(value) ?? [];
  if (name === undefined)
    return value.includes('$') ? [`${variable} is neither a value nor \${${variable}:-default}`] : [];
  if (name !== variable) return [`${variable} is set by ${name}`];
  const known = (variables as Record<string, { default?: string }>)[variable]?.default;
  return fallback === known ? [] : [`the default of ${variable} is ${known}, not ${fallback}`];
}

function secretProblem(variable: string, value: string, service: Service): string[] {
  if (!variable.endsWith('_FILE') || value === '/etc/hostname') return [];
  const secret = /^\/run\/secrets\/(\w+)$/.exec(value)?.[1];
  if (secret && service.secrets?.includes(secret)) return [];
  return [`${variable} names ${value}, which is none of its secrets`];
}

/** Runs the programs' own check with exactly this environment. */
function configProblem(reads: Variables, given: Record<string, string>, secrets: Record<string, string>): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'keytally-compose-'));
  const before = process.env;
  try {
    for (const [name, text] of Object.entries({ ...secrets, hostname: '3f2b0c9d41aa' }))
      writeFileSync(join(folder, name), `${text}\n`);
    const inContainer = (path: string) => path.replace(/^\/(run\/secrets|etc)\//, `${folder}/`);
    process.env = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [name, name.endsWith('_FILE') ? inContainer(value) : value]),
    );
    readConfig(reads);
    return [];
  } catch (error) {
    return [(error as Error).message];
  } finally {
    process.env = before;
    rmSync(folder, { recursive: true });
  }
}
