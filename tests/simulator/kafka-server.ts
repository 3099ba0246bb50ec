import type { Kafka, Outgoing } from '../../shared/events/kafka.ts';
import type { Take, Fetched, Incoming } from '../../shared/events/kafka-consumer.ts';
import type { Process, Simulation } from './simulation.ts';

export type KafkaServer = ReturnType<typeof makeKafkaServer>;

/** Of each partition the records, and up to where they are done. */
type Partition = { records: Incoming[]; committed: number };
/** A process that reads: its partitions, and where it goes on in each. */
type Member = Map<number, number>;

const PARTITIONS = 3;
const MOST_FETCHED = 20;
const LOOKS_EVERY_MS = 500;
const topics = { usage: 'usage', dead: 'dead' };

/** A Kafka whose life is simulated, in memory: it appends twice, gives late, and again from what was committed last. */
export function makeKafkaServer() {
  let simulation: Simulation;
  let partitions: Partition[] = [];
  let dead = 0;
  let members: Member[] = [];

  function append(topic: string, records: readonly Outgoing[]): void {
    if (topic === topics.dead) dead += records.length;
    // A client that lost the answer has sent it again.
    else for (let times = simulation.random.chance(0.1) ? 2 : 1; times > 0; times--) records.forEach(appendOne);
  }

  function appendOne({ key, value, headers = {} }: Outgoing): void {
    const place =
      key === null ? simulation.random.below(PARTITIONS) : Buffer.from(key).reduce((a, b) => a + b) % PARTITIONS;
    const { records } = partitions[place]!;
    // They were text, and are read as bytes.
    const read = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)]));
    records.push({ key: null, value: Buffer.from(value), headers: read, offset: String(records.length) });
  }

  /** Each partition belongs to one of those who read: to whom it is new, it begins after what is done. */
  function assign(next: Member[]): void {
    members = next;
    for (const [i, member] of members.entries())
      for (const [at, { committed }] of partitions.entries())
        if (at % members.length !== i) member.delete(at);
        else if (!member.has(at)) member.set(at, committed);
  }

  function fetch(member: Member): Fetched | undefined {
    const { random } = simulation;
    const open = [...member].filter(([at, position]) => position < partitions[at]!.records.length);
    if (open.length === 0 || random.chance(0.2)) return undefined;
    const [partition, position] = random.pick(open);
    const { records, committed } = partitions[partition]!;
    const from = random.chance(0.1) ? committed : position;
    const some = records.slice(from, from + 1 + random.below(MOST_FETCHED));
    return { partition, records: some, lastOffset: some.at(-1)!.offset };
  }

  function consume(process: Process, ask: <T>(label: string, work: () => T) => Promise<T>, take: Take) {
    const member: Member = new Map();
    const stopping = new AbortController();
    process.onDeath(async () => assign(members.filter((one) => one !== member)));
    void read();
    return {
      assigned: () => new Set(member.keys()),
      commit: (offsets: ReadonlyMap<number, string>) =>
        ask('commit', () => {
          for (const [at, offset] of offsets) if (member.has(at)) partitions[at]!.committed = Number(offset) + 1;
        }),
      stop: async () => stopping.abort(),
    };

    async function read(): Promise<void> {
      while (!stopping.signal.aborted) {
        const fetched = await ask('fetch', () => {
          if (!members.includes(member)) assign([...members, member]);
          return fetch(member);
        }).catch(() => undefined);
        if (!fetched) await process.clock.sleep(LOOKS_EVERY_MS);
        else if ((await take(fetched, async () => !stopping.signal.aborted)) && member.has(fetched.partition))
          member.set(fetched.partition, Number(fetched.lastOffset) + 1);
      }
    }
  }

  return {
    begin(next: Simulation): void {
      simulation = next;
      [dead, members] = [0, []];
      partitions = Array.from({ length: PARTITIONS }, () => ({ records: [], committed: 0 }));
    },
    /** What is still to be done there. */
    unrest(): string {
      const left = partitions.reduce((sum, { records, committed }) => sum + records.length - committed, 0);
      return [left && `${left} records`, dead && `${dead} unreadable records`].filter(Boolean).join(', ');
    },
    connect(process: Process): Kafka {
      let requests = 0;
      const lane = () => `${process.name} ${(requests += 1)}`;
      const ask = <T>(label: string, work: () => T) =>
        process.ask({ server: 'kafka', lane: lane(), label, execute: async () => work() });
      return {
        topics,
        ensureTopics: async () => {},
        produce: (topic, records) => ask(`produce ${records.length}`, () => append(topic, records)),
        consume: (take) => consume(process, ask, take),
        progress: () =>
          ask('progress', () =>
            partitions.map(({ records, committed }, partition) => ({ partition, committed, end: records.length })),
          ),
        ready: async () => true,
        close: async () => {},
      };
    },
  };
}
