import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive } from '../../../apps/stack/process/processes.ts';
import { readEvents } from '../../../shared/events/event.ts';
import { isOutcome } from '../../../shared/events/outcome.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import {
  isInSync,
  isPrimary,
  kill,
  pairOf,
  refuseReplicas,
  restart,
  takeOver,
  until,
  untilSlotsAreAt,
  type Member,
} from '../../helpers/redis-cluster.ts';
import { onCluster, onDisks, onPlainRedis, type FaultContext, type Fault } from './fault.ts';

const TIMES_FULL = 5;
const DISKS = ['postgres', 'redis', 'clickhouse', 'kafka'] as const;

/** What happens to the data of servers: it is lost, is too old, or the disk is full. */
export const faultsOfServers: Fault[] = [
  {
    name: 'FLUSHALL',
    expected: '503, then rebuilt; only events in the outbox are lost',
    on: onPlainRedis,
    make: flush,
  },
  {
    name: 'a replica takes over',
    expected: 'nothing answered is lost, nothing revoked comes back',
    on: (kind) => onCluster(kind) && kind.minReplicas !== 0,
    make: failOver,
  },
  {
    name: 'a replica that lagged takes over',
    expected: 'nothing revoked comes back',
    on: onCluster,
    make: failOverBehind,
  },
  ...DISKS.map((server): Fault => ({
    name: `disk full: ${server}`,
    expected: '503 or a clear error, no corruption, on once there is room',
    on: (kind) => onDisks(kind) && (server !== 'kafka' || kind.bus === 'kafka'),
    async make({ stage, random }) {
      const disk = stage.disks.get(server)!;
      const fullMs = random.between(2_500, 4_500);
      // Again and again, since what is being written when it fills up suffers most.
      for (let i = 0; i < TIMES_FULL; i++) {
        await disk.fill();
        await sleep(fullMs / TIMES_FULL);
        disk.free();
        await sleep(100);
      }
    },
  })),
];

/** Empties Redis and, in the same transaction, reads which events it held: no others may be lost. */
async function flush({ stage, emptied }: FaultContext): Promise<void> {
  const [redis] = stage.redis;
  const step = redis!.multi();
  for (const shard of ALL_SHARDS) step.xrange(keyspace.outbox(shard), '-', '+');
  const answers = await step.flushall().exec();
  const entries = (answers ?? []).slice(0, -1).flatMap(([, found]) => found as [id: string, fields: string[]][]);
  const events = entries.filter(([, [, value]]) => !isOutcome(value ?? ''));
  emptied(events.flatMap(([, fields]) => readEvents(fields).map(({ usageName }) => usageName)));
  await sleep(2_000);
}

async function failOver({ stage, random }: FaultContext): Promise<void> {
  const { primary, replica } = await pairOf(stage.members, random.pick(ALL_SHARDS));
  await losing(primary, async () => {
    await kill(primary);
    await until(() => isPrimary(replica));
    await sleep(random.between(0, 500));
    await untilSlotsAreAt(replica, stage.members);
  });
  await until(() => isInSync(primary));
}

async function failOverBehind({ stage, random, during }: FaultContext): Promise<void> {
  const { primary, replica } = await pairOf(stage.members, random.pick(ALL_SHARDS));
  await losing(primary, async () => {
    // If a replica must have every write before its answer, nothing that was answered can be lost.
    await during(stage.kind.minReplicas === 0 ? 'lagged' : 'behind', async () => {
      await refuseReplicas(primary);
      await sleep(random.between(500, 1_000));
      await kill(primary);
      await takeOver(replica);
    });
    await untilSlotsAreAt(replica, stage.members);
  });
  await until(() => isInSync(primary));
}

/** Starts a primary again however the work ends that kills it: the cluster would stand still for all that comes after. */
async function losing(primary: Member, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } finally {
    if (!isAlive(primary.running)) await restart(primary);
  }
}
