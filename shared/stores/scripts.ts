import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';

type Script = {
  /** How many KEYS it takes; absent: as many as a call has. */
  keys?: number;
  /** Its answer only counts once enough replicas have what it wrote. */
  replicated?: boolean;
  /**
   * It runs when Redis has reached `maxmemory`: without it Redis could not be drained, opened again or told of a revocation.
   * What it adds must have a bound of its own. Other scripts are refused there at their first write.
   */
  atMemoryLimit?: boolean;
};

/** The scripts of lua/, one file each. */
export const scripts = {
  acknowledge: { keys: 1, atMemoryLimit: true },
  // The api takes no adjustment while memory is short (`grows`): these are the few that it had taken before.
  adjust: { keys: 3, replicated: true, atMemoryLimit: true },
  // Likewise: what is new is refused before it is stored, so these are changes, and records of an emptied Redis.
  apply: { replicated: true, atMemoryLimit: true },
  begin: { keys: 2, atMemoryLimit: true },
  cancel: { replicated: true },
  capture: { replicated: true },
  checkpoint: { keys: 1, atMemoryLimit: true },
  close: { keys: 2, atMemoryLimit: true },
  fill: { replicated: true, atMemoryLimit: true },
  forget: { keys: 1 },
  group: { keys: 1, atMemoryLimit: true },
  open: { keys: 1, atMemoryLimit: true },
  rebuild: { replicated: true, atMemoryLimit: true },
  reject: { keys: 2, atMemoryLimit: true },
  'restore-holds': { keys: 4, replicated: true, atMemoryLimit: true },
  'set-aside': { replicated: true, atMemoryLimit: true },
  token: { keys: 2 },
  // Moments come whether there is memory or not, and free some: what ended leaves the record.
  turn: { keys: 4, replicated: true, atMemoryLimit: true },
  verify: { replicated: true },
  wipe: { atMemoryLimit: true },
} as const satisfies Record<string, Script>;
export type ScriptName = keyof typeof scripts;

/**
 * The text of a script as Redis runs it. A line names the parts that it shares with others (`-- uses: time fence` for
 * lua/parts/time.lua and fence.lua); they stand before that line in this order, so that their locals are the script's own.
 * Where such a line stands in a function, its parts cost nothing until that is called.
 */
export function scriptText(name: ScriptName): string {
  const script = readLua(`${name}.lua`).replace(/^ *-- uses: (.+)$/gm, (line, uses: string) =>
    [...uses.split(' ').map((part) => readLua(`parts/${part}.lua`)), line].join('\n'),
  );
  const { atMemoryLimit }: Script = scripts[name];
  // Redis takes flags from the first line alone.
  return atMemoryLimit ? `#!lua flags=allow-oom\n${script}` : script;
}

/** Whether the answer of a script only counts once enough replicas have what it wrote. */
export function isReplicated(name: ScriptName): boolean {
  const { replicated }: Script = scripts[name];
  return replicated === true;
}

/** Makes the scripts known to a client. Redis gets the text of a script only where it does not have it yet. */
export function defineScripts(client: Redis, textOf = scriptText): void {
  for (const name of Object.keys(scripts) as ScriptName[]) {
    const { keys }: Script = scripts[name];
    client.defineCommand(commandName(name), { lua: textOf(name), ...(keys && { numberOfKeys: keys }) });
  }
}

/** Runs a script by the client that `defineScripts` was given. */
export function callScript(
  client: Redis,
  name: ScriptName,
  keys: string[],
  args: (string | number | Buffer)[],
): Promise<string[]> {
  const run = client as unknown as Record<string, (...args: (string | number | Buffer)[]) => Promise<string[]>>;
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
