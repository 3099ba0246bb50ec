import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';

type Script = {
  /** How many KEYS it takes; absent: as many as a call has. */
  keys?: number;
  /** Its answer only counts once enough replicas have what it wrote. */
  replicated?: boolean;
};

/** The scripts of lua/, one file each. */
export const scripts = {
  adjust: { keys: 3, replicated: true },
  apply: { replicated: true },
  balance: { keys: 2 },
  begin: { keys: 2 },
  checkpoint: { keys: 1 },
  close: { keys: 2 },
  hold: { keys: 2, replicated: true },
  open: { keys: 1 },
  settle: { keys: 3, replicated: true },
  token: { keys: 2 },
  verify: { replicated: true },
  wipe: {},
  witness: { keys: 3 },
} as const satisfies Record<string, Script>;
export type ScriptName = keyof typeof scripts;

/**
 * The text of a script as Redis runs it. Its first line names the parts that it shares with others (`-- uses: time fence`
 * for lua/parts/time.lua and fence.lua); they stand before it in this order, in one chunk, so that their locals are its own.
 */
export function scriptText(name: ScriptName): string {
  const script = readLua(`${name}.lua`);
  const [, uses = ''] = /^-- uses: (.+)\n/.exec(script) ?? [];
  const parts = uses.split(' ').filter((part) => part !== '');
  return [...parts.map((part) => readLua(`parts/${part}.lua`)), script].join('\n');
}

/** Whether the answer of a script only counts once enough replicas have what it wrote. */
export function isReplicated(name: ScriptName): boolean {
  const { replicated }: Script = scripts[name];
  return replicated === true;
}

/** Makes the scripts known to a client. Redis gets the text of a script only where it does not have it yet. */
export function defineScripts(client: Redis): void {
  for (const name of Object.keys(scripts) as ScriptName[]) {
    const { keys }: Script = scripts[name];
    client.defineCommand(commandName(name), { lua: scriptText(name), ...(keys && { numberOfKeys: keys }) });
  }
}

/** Runs a script by the client that `defineScripts` was given. */
export function callScript(
  client: Redis,
  name: ScriptName,
  keys: string[],
  args: (string | number)[],
): Promise<string[]> {
  const run = client as unknown as Record<string, (...args: (string | number)[]) => Promise<string[]>>;
  const { keys: fixed }: Script = scripts[name];
  const call = fixed === undefined ? [keys.length, ...keys, ...args] : [...keys, ...args];
  return run[commandName(name)]!(...call);
}

function readLua(path: string): string {
  return readFileSync(new URL(`lua/${path}`, import.meta.url), 'utf8');
}

function commandName(script: ScriptName): string {
  return `keytally_${script}`;
}
