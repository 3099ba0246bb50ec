import { choosePorts, logFile, type Home } from '../process/home.ts';
import { makeSupervisor } from '../process/supervisor.ts';
import { prepareServers, type Servers } from '../servers/servers.ts';

export type TemporaryServers = Servers & { stop(): Promise<void> };

/** Starts a home's servers, and none of our programs, until stopped, or cut off in the midst of their work. */
export async function startServers(home: Home, names: string[], cutOff: AbortSignal): Promise<TemporaryServers> {
  cutOff.throwIfAborted();
  // That they stop is no news here; that one would not, or failed, is.
  const say = (line: string) => void (line.endsWith(' stopped') || console.error(line));
  const supervisor = makeSupervisor({ folder: home.folder, logFile: (name) => logFile(home, name), say });
  // Once for all who ask, so that each waits until the last record of it is written.
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= supervisor.stop([]));
  cutOff.addEventListener('abort', () => void stop());
  const servers = await prepareServers({ folder: home.folder, ports: await choosePorts(home) });
  try {
    const wanted = servers.programs.filter(({ name }) => names.includes(name));
    await Promise.all(wanted.map((program) => supervisor.add(program)));
  } catch (error) {
    await stop();
    throw error;
  }
  return { ...servers, stop };
}
