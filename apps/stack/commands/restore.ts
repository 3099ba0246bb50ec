import { closeSync, existsSync, openSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { describeFailure, StackError } from '../process/errors.ts';
import * as homes from '../process/home.ts';
import type { Home } from '../process/home.ts';
import { replaceDurably } from '../process/files.ts';
import { readRecords, stopRecorded } from '../process/leftovers.ts';
import { untilStopped } from '../process/until-stopped.ts';
import { findLost } from '../restore/lost.ts';
import {
  finishSwap,
  lostFile,
  nameForOld,
  refuseMount,
  refuseRestoring,
  removeLoaded,
  restoringHome,
  swap,
} from '../restore/folders.ts';
import { startServers, type TemporaryServers } from '../restore/temporary-servers.ts';
import { endOf, runOnStack, startCommand } from '../servers/programs.ts';
import { up } from './up.ts';

type Contents = { usageBefore: string; settingsAt: string };

/**
 * Puts a stack made from a backup in the place of this home's, which is kept.
 * 1. Read the whole file. Until step 4 the old folder stays where it is, and as it is.
 * 2. Load it into a folder beside the old one. A crash leaves that folder, and the next restore removes it.
 * 3. Compare it with the old folder, and say what is lost: the start below may fail, and a second restore finds nothing lost.
 * 4. Swap the folders. A crash between the two moves is finished by the next `make up` or `make restore`.
 * 5. Start the stack, which fills Redis, and compare all balances with the books.
 */
export async function restore(home: Home, name: string): Promise<number> {
  if (name === '') throw new StackError('name the file to restore: make restore FILE=keytally.backup');
  const file = resolve(name);
  if (!existsSync(file)) throw new StackError(`there is no file ${file}`);
  refuseMount(home);
  finishSwap(home);
  refuseRunning(home);
  await untilStopped('nothing was restored', (cutOff) => replaceByBackup(home, file, cutOff));

  await up(home);
  const code = await runOnStack(home, 'reconcile');
  if (code !== 0) console.log('it is not proved yet that the balances and the books agree: run make reconcile again');
  return code;
}

async function replaceByBackup(home: Home, file: string, cutOff: AbortSignal): Promise<void> {
  const masterKey = findMasterKey(home);
  console.log(`checking ${file}`);
  const { usageBefore, settingsAt } = await runRestore(file, ['--check'], { MASTER_KEY_FILE: masterKey }, cutOff);

  const fresh = await prepareFresh(home);
  const kept = nameForOld(home, new Date());
  const leaveFresh = homes.takeHome(fresh);
  const hadOld = existsSync(home.folder);
  const leaveOld = hadOld ? homes.takeHome(home) : undefined;
  try {
    homes.copyMasterKey(masterKey, fresh);
    // The next start keeps the port, whether or not this one succeeds.
    homes.writeEnvFile(fresh, { KEYTALLY_API_URL: home.apiUrl });
    const lost = await loadInto(fresh, file, { home, usageBefore, cutOff });
    cutOff.throwIfAborted();
    console.log(['lost since the backup:', ...lost.map((line) => `  ${line}`)].join('\n'));
    replaceDurably(lostFile(fresh), `${lost.join('\n')}\n`);
    // Where there was no folder to take, a stack may have begun one.
    if (!hadOld) refuseRunning(home);
    swap(home, { from: file, kept });
  } catch (error) {
    removeLoaded(home);
    leaveFresh(fresh);
    leaveOld?.(home);
    throw error;
  }
  leaveFresh(home);
  leaveOld?.({ folder: kept });
  console.log(`restored from ${file}: the settings of ${settingsAt}, and all usage from before ${usageBefore}`);
  if (hadOld) console.log(`the old folder is kept: ${kept}`);
  console.log(`what is lost since the backup is in ${lostFile(home)}`);
}

function refuseRunning(home: Home): void {
  if (homes.findSupervisor(home) || readRecords(home.folder).length > 0)
    throw new StackError(`the stack in ${home.folder} runs: stop it with make down, then restore again`);
}

/** The file of the master key: the one named, else that of the old folder. */
function findMasterKey(home: Home): string {
  const named = process.env.MASTER_KEY_FILE;
  const file = named ? resolve(named) : join(home.folder, 'master.key');
  if (existsSync(file)) return file;
  throw new StackError(
    named
      ? `there is no master key in ${file}`
      : `the backup has no master key, and there is none in ${home.folder}: name your copy of it, MASTER_KEY_FILE=…`,
  );
}

/** An empty folder to load into, without what a restore that was cut off left there. */
async function prepareFresh(home: Home): Promise<Home> {
  // Another one may have begun while this one read its file.
  refuseRestoring(home);
  const fresh = restoringHome(home);
  await stopRecorded(readRecords(fresh.folder), []);
  rmSync(fresh.folder, { recursive: true, force: true });
  homes.prepareHome(fresh);
  return fresh;
}

type Loading = { home: Home; usageBefore: string; cutOff: AbortSignal };

async function loadInto(fresh: Home, file: string, { home, usageBefore, cutOff }: Loading): Promise<string[]> {
  const servers = await startServers(fresh, ['postgres', 'clickhouse'], cutOff);
  try {
    console.log(`loading it into ${fresh.folder}`);
    await servers.createDatabase('keytally');
    await runRestore(file, [], servers.addresses('keytally'), cutOff);
    return await compareWithOld(servers, { home, usageBefore, cutOff });
  } finally {
    await servers.stop();
  }
}

async function compareWithOld(servers: TemporaryServers, { home, usageBefore, cutOff }: Loading): Promise<string[]> {
  const later = 'whatever was used, bought and changed after the backup';
  if (!existsSync(join(home.folder, 'postgres/data'))) return [`${later}: there is no old folder to compare with`];
  console.log('comparing it with the old folder');
  try {
    const old = await startServers(home, ['postgres', 'clickhouse', 'redis', 'kafka'], cutOff);
    try {
      return await findLost(old, servers, usageBefore);
    } finally {
      await old.stop();
    }
  } catch (error) {
    return [`${later}: the old folder can't be read (${describeFailure(error)})`];
  }
}

async function runRestore(
  file: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Contents> {
  const input = openSync(file, 'r');
  const { MASTER_KEY: _, MASTER_KEY_COMMAND: __, ...rest } = process.env;
  const child = startCommand('restore', args, { env: { ...rest, ...env }, stdio: [input, 'pipe', 'inherit'], signal });
  closeSync(input);
  const [printed, code] = await Promise.all([text(child.stdout!), endOf(child)]);
  if (code !== 0) throw new StackError('nothing was restored');
  return JSON.parse(printed) as Contents;
}
