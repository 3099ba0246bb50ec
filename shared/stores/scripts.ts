import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';

type Script = {
  /** Its answer only counts once enough replicas have what it wrote. */
  replicated?: boolean;
  /**
   * It runs when Redis has reached `maxmemory`: without it Redis could not be drained, opened again or told of a revocation.
   * What it adds must have a bound of its own. Redis runs no other script then.
   */
  atMemoryLimit?: boolean;
  /** Its third argument says that the outbox is full, and with that it runs at `maxmemory`, too: it refuses what it would refuse. */
  hasFullOutbox?: boolean;
};

/** The scripts of lua/, one file each. */
export const scripts = {
  acknowledge: { atMemoryLimit: true },
  // The api takes no adjustment while memory is short (`grows`): these are the few that it had taken before.
  adjust: { replicated: true, atMemoryLimit: true },
  // Likewise: what is new is refused before it is stored, so these are changes, and records of an emptied Redis.
  apply: { replicated: true, atMemoryLimit: true },
  begin: { atMemoryLimit: true },
  cancel: { replicated: true, hasFullOutbox: true },
  capture: { replicated: true, hasFullOutbox: true },
  checkpoint: { atMemoryLimit: true },
  close: { atMemoryLimit: true },
  fill: { replicated: true, atMemoryLimit: true },
  forget: {},
  group: { atMemoryLimit: true },
  open: { atMemoryLimit: true },
  rebuild: { replicated: true, atMemoryLimit: true },
  reject: { atMemoryLimit: true },
  'restore-holds': { replicated: true, atMemoryLimit: true },
  'set-aside': { replicated: true, atMemoryLimit: true },
  token: { atMemoryLimit: true },
  // Moments come whether there is memory or not, and free some: what ended leaves the record.
  'bring-up-to-date': { replicated: true, atMemoryLimit: true },
  verify: { replicated: true, hasFullOutbox: true },
  wipe: { atMemoryLimit: true },
} as const satisfies Record<string, Script>;
export type ScriptName = keyof typeof scripts;

/** The scripts as a library of Redis functions: what they are made of is made once for a server, and not with each call. */
export type ScriptLibrary = { text: string; functionOf(name: ScriptName): string };

/**
 * The text of a script. Its first line names the parts that it shares with others (`-- uses: time fence` for lua/parts/time.lua and
 * fence.lua); they stand before that line in this order, so that their locals are the script's own. Lua allows it 200: what only one
 * function of a large part needs stands with it in a block.
 */
export function scriptText(name: ScriptName): string {
  return readLua(`${name}.lua`).replace(/^-- uses: (.+)$/m, (line, uses: string) =>
    [...uses.split(' ').map((part) => readLua(`parts/${part}.lua`)), line].join('\n'),
  );
}

/** Makes a library of the scripts. Its name and those of its functions say what is in it: other versions may stand beside it. */
export function makeLibrary(textOf = scriptText): ScriptLibrary {
  const names = Object.keys(scripts) as ScriptName[];
  // A server keeps the text as long as the library: without comments.
  const texts = names.map((script) => textOf(script).replace(/^ *--.*\n/gm, ''));
  const name = `keytally_${createHash('sha256').update(texts.join()).digest('hex').slice(0, 12)}`;
  const functions = new Map(names.map((script) => [script, `${name}_${script.replaceAll('-', '_')}`]));
  const functionOf = (script: ScriptName) => functions.get(script)!;
  const registered = names.map((script, i) => {
    const { atMemoryLimit = false, hasFullOutbox = false }: Script = scripts[script];
    return `register('${functionOf(script)}', ${atMemoryLimit}, ${hasFullOutbox}, function()\n${texts[i]!}end)\n`;
  });
  return { text: `#!lua name=${name}\n${REGISTER}${registered.join('')}`, functionOf };
}

// Nothing but its registration is allowed while a library is loaded, so a script is made by the first call of it.
const REGISTER = `
local function register(name, atMemoryLimit, hasFullOutbox, make)
  local run
  local function callback(keys, arguments)
    run = run or make()
    return run(keys, arguments)
  end
  redis.register_function({ function_name = name, callback = callback, flags = atMemoryLimit and { 'allow-oom' } or {} })
  if hasFullOutbox then redis.register_function({ function_name = name .. '_full', callback = callback, flags = { 'allow-oom' } }) end
end
`;

let ofProduct: ScriptLibrary | undefined;
const others = new WeakMap<Redis, ScriptLibrary>();

/** Has a client call the scripts of another library than the product's. */
export function useLibrary(client: Redis, library: ScriptLibrary): void {
  others.set(client, library);
}

/** The function by which a server shows that it has the scripts; called without keys it does nothing, whether there is memory or not. */
export function probeOf(client: Redis): string {
  return `${libraryOf(client).functionOf('verify')}_full`;
}

/** Whether the answer of a script only counts once enough replicas have what it wrote. */
export function isReplicated(name: ScriptName): boolean {
  const { replicated }: Script = scripts[name];
  return replicated === true;
}

/** Runs a script. A server that lacks the scripts gets them, by who may load them (sql/redis/users.conf). */
export async function callScript(
  client: Redis,
  name: ScriptName,
  keys: string[],
  args: (string | number | Buffer)[],
): Promise<string[]> {
  const library = libraryOf(client);
  const { hasFullOutbox = false }: Script = scripts[name];
  const run = (suffix: string, given: typeof args) =>
    client.fcall(`${library.functionOf(name)}${suffix}`, keys.length, ...keys, ...given) as Promise<string[]>;
  try {
    return await run('', args);
  } catch (error) {
    const { message } = error as Error;
    if (hasFullOutbox && message.startsWith('OOM ')) return run('_full', args.with(2, '1'));
    if (!message.endsWith('Function not found')) throw error;
    await load(client, library);
    return run('', args);
  }
}

function libraryOf(client: Redis): ScriptLibrary {
  return others.get(client) ?? (ofProduct ??= makeLibrary());
}

async function load(client: Redis, { text }: ScriptLibrary): Promise<void> {
  await client.function('LOAD', text).catch((error: Error) => {
    if (error.message.startsWith('OOM '))
      throw new Error('redis has no memory for the scripts of this version: raise its maxmemory', { cause: error });
    if (!error.message.endsWith('already exists')) throw error;
  });
}

function readLua(path: string): string {
  return readFileSync(new URL(`lua/${path}`, import.meta.url), 'utf8');
}
