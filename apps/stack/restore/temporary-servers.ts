import { choosePorts, logFile, type Home } from '../process/home.ts';
import { makeSupervisor } from '../process/supervisor.ts';
import { prepareServers, type Servers } from '../servers/servers.ts';

export type TemporaryServers = Servers & { stop(): Promise<void> };

/** Starts a home's servers, and none of our programs, until stopped. */
export async function startServers(home: Home, names: string[]): Promise<TemporaryServers> {
  const supervisor = makeSupervisor({ folder: home.folder, logFile: (name) => logFile(home, name), say: () => {} });
  const servers = await prepareServers({ folder: home.folder, ports: await choosePorts(home) });
  try {
    const wanted = servers.programs.filter(({ name }) => names.includes(name));
    await Promise.all(wanted.map((program) => supervisor.add(program)));
  } catch (error) {
    await supervisor.stop([]);
    throw error;
  }
  return { ...servers, stop: () => supervisor.stop([]) };
}
