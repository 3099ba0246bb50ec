import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { findSupervisor, lockHome, logFile, type Home, type LeaveHome } from '../process/home.ts';
import { readRecords, stopRecorded, writeRecords } from '../process/leftovers.ts';
import { isAlive, stopProcess } from '../process/processes.ts';
import { stopOrder } from '../servers/programs.ts';
import { StackError } from '../process/errors.ts';
import { restoringHome } from '../restore/folders.ts';

// Longer than all programs together may take, one after the other.
const WITHIN_MS = 150_000;

/** Stops the stack and keeps its data, also when its supervisor is gone. */
export async function down(home: Home): Promise<void> {
  const began = performance.now();
  const took = () => `${((performance.now() - began) / 1000).toFixed(1)} s`;
  const said = (name: string) => console.log(`  ${`${name} stopped`.padEnd(36)} ${took()}`);
  const supervisor = findSupervisor(home);
  if (supervisor) {
    console.log(`stopping keytally in ${home.folder}`);
    process.kill(supervisor.pid, 'SIGTERM');
    let before = names(home);
    while (isAlive(supervisor)) {
      if (performance.now() - began > WITHIN_MS) await stopProcess(supervisor, 'SIGKILL', 1_000);
      const now = names(home);
      for (const name of before.filter((one) => !now.includes(one))) said(name);
      before = now;
      await sleep(50);
    }
    for (const name of before.filter((one) => !names(home).includes(one))) said(name);
  }
  // Nobody starts the stack again before all of it is stopped.
  const leaveHome: LeaveHome = existsSync(home.folder) ? lockHome(home) : () => {};
  // A restore that was killed leaves servers in the folder that it loaded into, too.
  const left = [home, restoringHome(home)].filter(({ folder }) => readRecords(folder).length > 0);
  for (const { folder } of left) {
    console.log(`stopping processes of ${folder} whose supervisor is gone`);
    await stopRecorded(readRecords(folder), stopOrder, said);
    writeRecords(folder, []);
  }
  leaveHome(home);
  if (readRecords(home.folder).length > 0)
    throw new StackError(`some processes still run; see ${logFile(home, 'supervisor')}`);
  console.log(
    supervisor || left.length > 0 ? `keytally is down; its data stays in ${home.folder}` : 'keytally is not running.',
  );
}

function names({ folder }: Home): string[] {
  return readRecords(folder).map(({ name }) => name);
}
