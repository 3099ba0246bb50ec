import type { KafkaLogin } from '../../../shared/runtime/variables.ts';
import { choosePorts, logFile, type Home } from '../process/home.ts';
import { makeSupervisor } from '../process/supervisor.ts';
import { hasKafka, kafkaOf } from '../servers/kafka.ts';
import { prepareServers, type Servers } from '../servers/servers.ts';

export type TemporaryServers = Servers & { kafka: KafkaLogin | undefined; stop(): Promise<void> };

/** Starts a home's servers, of which it may have no Kafka, and none of our programs, until stopped, or cut off in the midst of their work. */
export async function startServers(home: Home, names: string[], cutOff: AbortSignal): Promise<TemporaryServers> {
  cutOff.throwIfAborted();
  // That they stop is no news here; that one would not, or failed, is.
  const say = (line: string) => void (line.endsWith(' stopped') || console.error(line));
  const supervisor = makeSupervisor({ folder: home.folder, logFile: (name) => logFile(home, name), say });
  // Once for all who ask, so that each waits until the last record of it is written.
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= supervisor.stop([]));
  cutOff.addEventListener('abort', () => void stop());
  const ports = await choosePorts(home);
  const servers = await prepareServers({ folder: home.folder, ports });
  const kafka = hasKafka(home) ? await kafkaOf(home, ports) : undefined;
  try {
    const programs = kafka ? [...servers.programs, kafka.program] : servers.programs;
    const wanted = programs.filter(({ name }) => names.includes(name));
    await Promise.all(wanted.map((program) => supervisor.add(program)));
  } catch (error) {
    await stop();
    throw error;
  }
  return { ...servers, kafka: kafka?.login, stop };
}
