import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';
import { checkout } from '../process/home.ts';
import { replaceFile } from '../process/files.ts';
import { answersOk, type Program } from '../process/program.ts';
import { installPackage } from './packages.ts';

/** Where one of our programs answers Prometheus. */
export type Target = { name: string; port: number };

/** Finds Prometheus and promtool on the PATH, or installs both if this user may; else throws with the command that would. */
export async function ensurePrometheus(say: (line: string) => void): Promise<void> {
  if (await isThere()) return;
  const missing = 'prometheus and promtool are not on the PATH';
  await installPackage({ what: 'Prometheus', packages: ['prometheus'], brew: 'prometheus', missing }, say);
  if (!(await isThere())) throw new StackError('Prometheus was installed but does not start');
}

/** Prometheus with our rules, on this machine alone. It asks what `writeTargets` names, and sees a change within seconds. */
export function prometheusProgram(folder: string, port: number): Program {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, 'prometheus.json');
  // JSON is YAML, in which Prometheus reads its settings.
  replaceFile(
    file,
    JSON.stringify({
      global: { scrape_interval: '15s' },
      rule_files: ['recording.yml', 'alerts.yml'].map((name) => join(checkout, 'deploy/prometheus', name)),
      scrape_configs: [
        { job_name: 'keytally', file_sd_configs: [{ files: [targetsFile(folder)], refresh_interval: '5s' }] },
      ],
    }),
  );
  return {
    name: 'prometheus',
    port,
    command: 'prometheus',
    args: [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      '--storage.tsdb.retention.time=30d',
      '--storage.tsdb.retention.size=1GB',
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
    ],
    env: { PATH: process.env.PATH, TZ: 'UTC' },
    isReady: () => answersOk(`http://127.0.0.1:${port}/-/ready`),
    stopSignal: 'SIGTERM',
    stopWithinMs: 20_000,
  };
}

/** Names the programs that Prometheus asks; `job` is a program's name, as in deploy/prometheus.yml. */
export function writeTargets(folder: string, targets: Target[]): void {
  const groups = targets.map(({ name, port }) => ({ targets: [`127.0.0.1:${port}`], labels: { job: name } }));
  replaceFile(targetsFile(folder), JSON.stringify(groups));
}

function targetsFile(folder: string): string {
  return join(folder, 'targets.json');
}

async function isThere(): Promise<boolean> {
  const run = promisify(execFile);
  const asked = ['prometheus', 'promtool'].map((name) => run(name, ['--version']).catch(() => undefined));
  return (await Promise.all(asked)).every(Boolean);
}
