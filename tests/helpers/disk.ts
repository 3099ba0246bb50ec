import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A small in-memory disk for one server. */
export type Disk = { fill(): Promise<void>; free(): void };

/** Mounts a disk on a folder; fails if this user may not. */
export async function mountDisk(folder: string, megabytes: number): Promise<Disk> {
  mkdirSync(folder, { recursive: true });
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0711`, 'keytally', folder]);
  const filler = join(folder, 'filler');
  return {
    async fill() {
      // Each write is meant to fail with a full disk: first in large pieces, then to the last page.
      for (const size of ['1M', '4k']) {
        await run('dd', ['if=/dev/zero', `of=${filler}`, `bs=${size}`, 'oflag=append', 'conv=notrunc']).catch(() => {});
      }
    },
    free: () => rmSync(filler, { force: true }),
  };
}

/** Unmounts the disks below a folder, so that it can be removed. */
export async function unmountBelow(folder: string): Promise<void> {
  for (const line of mounts()) {
    const place = line.split(' ')[1] ?? '';
    if (place.startsWith(`${folder}/`)) await run('umount', ['--lazy', place]);
  }
}

function mounts(): string[] {
  try {
    return readFileSync('/proc/mounts', 'utf8').split('\n');
  } catch {
    return [];
  }
}
