import { existsSync } from 'node:fs';
import { findSupervisor, lockHome, logFile, type Home, type LeaveHome } from '../process/home.ts';
import { readRecords, stopRecorded, writeRecords } from '../process/leftovers.ts';
import { stopProcess } from '../process/processes.ts';
import { stopOrder } from '../servers/programs.ts';
import { StackError } from '../process/errors.ts';
import { restoringHome } from '../restore/folders.ts';

// Longer than all programs together may take, one after the other.
const WITHIN_MS = 150_000;

/** Stops the stack and keeps its data, also when its supervisor is gone. */
export async function down(home: Home): Promise<void> {
  const supervisor = findSupervisor(home);
  if (supervisor) {
    console.log(`stopping keytally in ${home.folder}`);
    await stopProcess(supervisor, 'SIGTERM', WITHIN_MS);
  }
  // Nobody starts the stack again before all of it is stopped.
  const leaveHome: LeaveHome = existsSync(home.folder) ? lockHome(home) : () => {};
  // A restore that was killed leaves servers in the folder that it loaded into, too.
  const left = [home, restoringHome(home)].filter(({ folder }) => readRecords(folder).length > 0);
  for (const { folder } of left) {
    console.log(`stopping processes of ${folder} whose supervisor is gone`);
    await stopRecorded(readRecords(folder), stopOrder);
    writeRecords(folder, []);
  }
  leaveHome(home);
  if (readRecords(home.folder).length > 0)
    throw new StackError(`some processes still run; see ${logFile(home, 'supervisor')}`);
  console.log(
    supervisor || left.length > 0 ? `keytally is down; its data stays in ${home.folder}` : 'keytally is not running.',
  );
}
