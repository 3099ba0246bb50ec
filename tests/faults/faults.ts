import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Disk } from '../helpers/disk.ts';

/** What a fault breaks. */
export type Victim = {
  /** Our programs and the servers. */
  names: string[];
  disks: ReadonlyMap<string, Disk>;
  redis: Redis;
  signal(name: string, signal: NodeJS.Signals): void;
  /** Kills a process, and waits until it is back. */
  killed(name: string): Promise<void>;
  /** Kills everything, the supervisor too, and starts it again. */
  allKilled(): Promise<void>;
  /** Notes that Redis has lost all that is in no book. */
  lost(): Promise<void>;
};

/** Something that happens to a running stack and ends by itself, under load. */
export type Fault = { name: string; make(victim: Victim): Promise<void> };

const FROZEN_MS = 3_000;
const FULL_MS = 3_000;
const PROGRAMS = ['api', 'verify', 'relay', 'consumer', 'webhooks'];

/** One of each kind that only real processes show; the simulator knows the others, in every order. */
export const faults: Fault[] = [
  { name: 'nothing', make: () => sleep(2_000) },
  {
    name: 'kill -9 of each program',
    async make({ names, killed }) {
      for (const name of names.filter((one) => PROGRAMS.includes(one))) await killed(name);
    },
  },
  {
    name: 'kill -9 of each server',
    async make({ names, killed }) {
      for (const name of names.filter((one) => !PROGRAMS.includes(one))) await killed(name);
    },
  },
  {
    name: 'each server frozen, and a consumer',
    async make({ names, signal }) {
      for (const name of names.filter((one) => one === 'consumer' || !PROGRAMS.includes(one))) {
        signal(name, 'SIGSTOP');
        await sleep(FROZEN_MS);
        signal(name, 'SIGCONT');
        await sleep(500);
      }
    },
  },
  {
    name: 'the disk of each server full',
    async make({ disks }) {
      for (const disk of disks.values()) {
        await disk.fill();
        await sleep(FULL_MS);
        disk.free();
      }
    },
  },
  {
    name: 'Redis without memory',
    async make({ redis }) {
      await redis.config('SET', 'maxmemory', '1');
      await sleep(FULL_MS);
      await redis.config('SET', 'maxmemory', '0');
    },
  },
  { name: 'everything killed at once', make: (victim) => victim.allKilled() },
  {
    name: 'FLUSHALL',
    async make({ redis, lost }) {
      await redis.flushall();
      await lost();
    },
  },
];
