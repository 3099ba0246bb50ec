import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, StackError } from '../process/errors.ts';
import type { Home } from '../process/home.ts';
import { readRecords } from '../process/leftovers.ts';
import { freePorts, isFree } from '../process/ports.ts';
import { requireRunning } from '../restore/folders.ts';
import { ensurePrometheus, prometheusProgram, writeTargets } from '../servers/prometheus.ts';

const LOOK_EVERY_MS = 2_000;
const servers = ['postgres', 'redis', 'clickhouse', 'kafka'];

/** Runs Prometheus beside the stack until it is told to stop; its data stays in the home. */
export async function monitor(home: Home): Promise<void> {
  requireRunning(home);
  await ensurePrometheus(console.log);
  const folder = join(home.folder, 'prometheus');
  const program = prometheusProgram(folder, await choosePort(process.env.PROMETHEUS_PORT));
  let told = '';
  const tell = () => {
    const targets = readRecords(home.folder).filter(({ name }) => !servers.includes(name));
    const text = JSON.stringify(targets);
    if (text !== told) writeTargets(folder, targets);
    told = text;
  };
  tell();

  const child = spawn(program.command, program.args, { env: program.env, stdio: ['ignore', 'inherit', 'inherit'] });
  const ended = new AbortController();
  const end = once(child, 'exit').finally(() => ended.abort());
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill('SIGTERM'));
  let announced = false;
  let reported = '';
  while (!ended.signal.aborted) {
    if (!announced && (announced = await program.isReady()))
      console.log(`Prometheus on http://127.0.0.1:${program.port} (alerts: /alerts). Ctrl-C stops it.`);
    await sleep(announced ? LOOK_EVERY_MS : 100, undefined, { signal: ended.signal }).catch(() => {});
    // A stack that is started again may have other ports. A full disk or a restore that moves the home must not end this
    // command: Prometheus would go on without it.
    try {
      tell();
      reported = '';
    } catch (error) {
      const failure = describeFailure(error);
      if (failure !== reported) console.error(`keytally: Prometheus still asks the ports from before: ${failure}`);
      reported = failure;
    }
  }
  const [code] = (await end) as [number | null];
  if (code !== 0) throw new StackError(`Prometheus ended with ${code ?? 'a signal'}: see its lines above`);
}

async function choosePort(wanted: string | undefined): Promise<number> {
  if (!wanted) return (await isFree(9090)) ? 9090 : (await freePorts(1))[0]!;
  const port = /^\d+$/.test(wanted) ? Number(wanted) : 0;
  if (port < 1 || port > 65_535) throw new StackError(`PROMETHEUS_PORT must be a port from 1 to 65535, not ${wanted}`);
  if (!(await isFree(port))) throw new StackError(`the port ${port} of PROMETHEUS_PORT is in use`);
  return port;
}
