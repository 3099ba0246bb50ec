import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A small in-memory disk for one server. */
export type Disk = { fill(): Promise<void>; free(): void };

/** Mounts a disk on a folder; fails, and says so, if this user may not. */
export async function mountDisk(folder: string, megabytes: number): Promise<Disk> {
  mkdirSync(folder, { recursive: true });
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0711`, 'keytally', folder]).catch(
    (cause: unknown) => {
      throw new Error('NOT TESTED: this user may not mount the small disk that the test needs; root may', { cause });
    },
  );
  const filler = join(folder, 'filler');
  return {
    async fill() {
      // Each write is meant to fail with a full disk: first in large pieces, then to the last page.
      for (const size of ['1M', '4k'])
        await run('dd', ['if=/dev/zero', `of=${filler}`, `bs=${size}`, 'oflag=append', 'conv=notrunc']).catch(() => {});
    },
    free: () => rmSync(filler, { force: true }),
  };
}

/** Unmounts the disks below a folder, so that it can be removed. */
export async function unmountBelow(folder: string): Promise<void> {
  for (const place of mounts().filter((one) => one.startsWith(`${folder}/`))) {
    await run('umount', ['--lazy', place]).catch((error: unknown) => {
      // Whoever ended the run, and the run itself, may both clean up.
      if (mounts().includes(place)) throw error;
    });
  }
}

function mounts(): string[] {
  try {
    return readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' ')[1] ?? '');
  } catch {
    return [];
  }
}
