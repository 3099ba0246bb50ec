import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StackError } from '../process/errors.ts';
import { replaceFile } from '../process/files.ts';
import { checkout, portsOf, type Home } from '../process/home.ts';
import { answersOk } from '../process/program.ts';
import { requireRunning } from '../restore/folders.ts';
import { ensureProgram } from '../servers/packages.ts';
import { programNames } from '../servers/programs.ts';

/** Runs Prometheus with our rules beside the stack until it is told to stop, on this machine alone; its data stays in the home. */
export async function monitor(home: Home): Promise<void> {
  requireRunning(home);
  const missing = 'prometheus is not on the PATH';
  const packages: [string] = ['prometheus'];
  const command = await ensureProgram(
    { what: 'Prometheus', commands: ['prometheus'], version: '--version', packages, brew: 'prometheus', missing },
    console.log,
  );
  const address = `127.0.0.1:${process.env.PROMETHEUS_PORT || 9090}`;
  const folder = join(home.folder, 'prometheus');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const config = join(folder, 'prometheus.json');
  // JSON is YAML, in which Prometheus reads its settings.
  replaceFile(config, JSON.stringify(settings(home)));
  const args = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    '--storage.tsdb.retention.time=30d',
    '--storage.tsdb.retention.size=1GB',
    `--web.listen-address=${address}`,
    '--log.level=warn',
  ];
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  const ended = once(child, 'exit') as Promise<[code: number | null]>;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill('SIGTERM'));
  const runs = () => child.exitCode === null && child.signalCode === null;
  while (runs() && !(await answersOk(`http://${address}/-/ready`))) await sleep(100);
  if (runs()) console.log(`Prometheus on http://${address} (alerts: /alerts). Ctrl-C stops it.`);
  const [code] = await ended;
  if (code !== 0) throw new StackError(`Prometheus ended with ${code ?? 'a signal'}: see its lines above`);
}

/** Our rules, and where our programs answer, whether they run just now or not; a program's name is its job, as in deploy/prometheus.yml. */
export function settings(home: Home) {
  const ports = portsOf(home);
  return {
    global: { scrape_interval: '15s' },
    rule_files: ['recording.yml', 'alerts.yml'].map((name) => join(checkout, 'deploy/prometheus', name)),
    scrape_configs: programNames(home.bus).map((name) => ({
      job_name: name,
      static_configs: [{ targets: [`127.0.0.1:${ports[name]}`] }],
    })),
  };
}
