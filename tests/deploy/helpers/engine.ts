import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { succeeds } from '../../../shared/runtime/succeeds.ts';
import { atEnd } from '../../helpers/at-end.ts';
import { eventually } from '../../helpers/eventually.ts';

const run = promisify(execFile);
// Images and what was built of them outlive a run.
const data = process.env.TEST_ENGINE!;

/** As `eventually`, with time for a machine that is busy with other work: no test of containers judges a speed. */
export const patiently: typeof eventually = (what, look) => eventually(what, look, 1_200_000);

export type Engine = Awaited<ReturnType<typeof startEngine>>;

/**
 * A Docker engine of its own, without containers and volumes of earlier ones. It runs in a PID namespace whose end is the end of all
 * that runs in it, as when a machine loses its power. One runs at a time: the next one waits for its data.
 */
export async function startEngine(folder: string) {
  const own = join(folder, 'engine');
  const socket = `unix://${join(own, 'docker.sock')}`;
  const env = {
    ...process.env,
    DOCKER_HOST: socket,
    DOCKER_CONFIG: process.env.TEST_DOCKER_CONFIG!,
    COMPOSE_BAKE: 'false',
  };
  let process_: ChildProcess;
  mkdirSync(data, { recursive: true });
  mkdirSync(own, { recursive: true });

  async function start(): Promise<void> {
    const exec = join(own, 'exec');
    const log = openSync(join(own, 'log'), 'a');
    rmSync(exec, { recursive: true, force: true });
    rmSync(join(own, 'pid'), { force: true });
    const files = ['--data-root', data, '--exec-root', exec, '--pidfile', join(own, 'pid')];
    const engine = ['docker-init', '--', 'dockerd', '-H', socket, ...files, '--log-level', 'warn'];
    const space = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', ...engine];
    process_ = spawn('flock', [`${data}.lock`, ...space], { env, stdio: ['ignore', log, log] });
    closeSync(log);
    const answers = () => succeeds(docker('info'));
    // Another test file may have it, for many minutes.
    await eventually('the engine answers', answers, 3_600_000);
  }
  /** Ends the engine and every container at once, with nothing said to them. */
  async function cutPower(): Promise<void> {
    const ended = once(process_, 'exit');
    process.kill(childOf(process_.pid!), 'SIGKILL');
    await ended;
  }
  async function docker(...args: string[]): Promise<string> {
    return (await run('docker', args, { env, maxBuffer: 64 * 1024 * 1024 })).stdout.trim();
  }
  async function lines(...args: string[]): Promise<string[]> {
    return (await docker(...args)).split('\n').filter(Boolean);
  }
  async function clear(): Promise<void> {
    const containers = await lines('ps', '-aq');
    if (containers.length > 0) await docker('rm', '-f', ...containers);
    for (const volume of await lines('volume', 'ls', '-q')) await docker('volume', 'rm', '-f', volume);
    for (const what of ['network', 'image']) await docker(what, 'prune', '-f');
  }

  await start();
  await clear();
  atEnd(async () => {
    await clear();
    await cutPower();
  });
  return {
    env,
    docker,
    lines,
    cutPower,
    start,
    /** Sends a signal to the first process of a container, past the engine, which takes the container for one that died. */
    async kill(container: string): Promise<void> {
      const pid = await docker('inspect', '-f', '{{.State.Pid}}', container);
      const space = childOf(childOf(process_.pid!));
      await run('nsenter', ['--target', String(space), '--pid', '--mount', 'kill', '-9', pid]);
    },
  };
}

function childOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]);
}
