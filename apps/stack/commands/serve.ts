import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeFailure, StackError } from '../process/errors.ts';
import * as homes from '../process/home.ts';
import { readRecords, stopRecorded } from '../process/leftovers.ts';
import { reservePort, whyTaken } from '../process/ports.ts';
import { makeSupervisor } from '../process/supervisor.ts';
import { finishSwap } from '../restore/folders.ts';
import { hasKafka, kafkaOf } from '../servers/kafka.ts';
import { ourPrograms, programEnvironment, runOnce, stopOrder } from '../servers/programs.ts';
import { prepareServers } from '../servers/servers.ts';

/** What the process that watches over the stack tells the `make up` that waits for it. */
export type Message = { line: string } | { ready: true } | { failed: string };

/** Runs the stack in the foreground, for `make up`, systemd and its like: starts it, then watches over it until it is told to stop. */
export async function serve(home: homes.Home): Promise<never> {
  const say = (line: string) => console.log(`${new Date().toISOString()} ${line}`);
  const supervisor = makeSupervisor({ folder: home.folder, logFile: (name) => homes.logFile(home, name), say });
  const cutOff = new AbortController();
  let up = false;
  let leaveHome: homes.LeaveHome = () => {};

  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void stop(signal));
  // `make up` ended before the stack was up: nobody would know that it runs.
  process.on('disconnect', () => up || void stop('make up ended before the stack was up'));
  try {
    if (homes.findSupervisor(home))
      throw new StackError(`the stack in ${home.folder} runs already: stop it with make down`);
    prepareStart(home);
    leaveHome = homes.takeHome(home);
    await startAll();
    up = true;
    say(`ready: api ${home.apiUrl}, verify ${home.verifyUrl}, token in ${homes.envFile(home)}`);
    await tell({ ready: true });
  } catch (error) {
    // Stopped while starting: `stop` ends the process when it is done.
    if (!cutOff.signal.aborted) {
      say(
        `could not start: ${error instanceof StackError ? error.message : ((error as Error).stack ?? String(error))}`,
      );
      await supervisor.stop(stopOrder);
      leaveHome(home);
      await tell({ failed: describeFailure(error) });
      process.exit(1);
    }
  }
  return new Promise(() => {});

  async function startAll(): Promise<void> {
    const left = readRecords(home.folder);
    if (left.length > 0) {
      await step(`stopped what an earlier run left running: ${left.map(({ name }) => name).join(', ')}`, () =>
        stopRecorded(left, stopOrder),
      );
    }
    homes.masterKeyFile(home);
    await checkPorts(home);
    const ports = await homes.choosePorts(home);
    const servers = await step('data folders', () => prepareServers({ folder: home.folder, ports, say: tellLine }));
    const [kafka] = await Promise.all([
      startKafka(ports),
      ...servers.programs.map((program) => step(program.name, () => supervisor.add(program))),
    ]);

    const addresses = { ...servers.addresses('keytally'), ...kafka };
    const env = programEnvironment(home, addresses);
    await step('migrations', async () => {
      await servers.createDatabase('keytally');
      await runOnce('migrate', [], { ...env, ...servers.rolePasswords }, cutOff.signal);
    });
    const token = await step('access token', async () => {
      const kept = homes.readEnvFile(home).KEYTALLY_TOKEN;
      return kept ?? (await runOnce('token', ['--team', 'demo'], env, cutOff.signal)).trim();
    });
    homes.writeEnvFile(home, {
      KEYTALLY_API_URL: home.apiUrl,
      KEYTALLY_VERIFY_URL: home.verifyUrl,
      KEYTALLY_TOKEN: token,
      ...addresses,
    });
    await Promise.all(
      ourPrograms(home, servers, kafka).map((program) => step(program.name, () => supervisor.add(program, runsOn))),
    );
  }

  // What others of it serve goes on, and make restored, say, needs a stack that runs.
  function runsOn(why: Error): void {
    say(why.message);
    tellLine(`${why.message}. It runs on; ask its /readyz what it waits for`);
  }

  /**
   * Starts Kafka if it is the bus, or was: what it holds must reach the books, and the consumer reads it for as long as it is there. Gives
   * the way to it.
   */
  async function startKafka(ports: homes.InnerPorts): Promise<Record<string, string>> {
    if (home.bus !== 'kafka' && !hasKafka(home)) return {};
    const { program, login } = await step("kafka's files", () => kafkaOf(home, ports, tellLine));
    await step(program.name, () => supervisor.add(program));
    if (home.bus !== 'kafka')
      tellLine(
        `Kafka runs along, since it may hold usage of a run with BUS=kafka. Once the consumer's keytally_kafka_lag_events is 0, ` +
          `stop the stack and remove ${join(home.folder, 'kafka')}`,
      );
    return { ...login, KAFKA_BROKERS: login.KAFKA_BROKERS.join() };
  }

  async function step<T>(label: string, work: () => Promise<T>): Promise<T> {
    cutOff.signal.throwIfAborted();
    const began = performance.now();
    const result = await work();
    const ms = performance.now() - began;
    say(`${label}: done after ${Math.round(ms)} ms`);
    tellLine(`${label.padEnd(36)} ${(ms / 1000).toFixed(1).padStart(5)} s`);
    return result;
  }

  async function stop(why: string): Promise<void> {
    if (cutOff.signal.aborted) return;
    say(`stopping: ${why}`);
    cutOff.abort(new StackError('stopped before it was ready'));
    await supervisor.stop(stopOrder);
    leaveHome(home);
    say('stopped');
    process.exit(0);
  }
}

/** Does what a start needs before it has its folder: refuses packages of another lockfile, and finishes a restore. */
export function prepareStart(home: homes.Home): void {
  // make keeps a copy of the one that it installed from; without it, npm was run by hand.
  const installed = join(homes.checkout, 'node_modules/.installed-lock.json');
  const wanted = join(homes.checkout, 'package-lock.json');
  if (existsSync(installed) && readFileSync(installed, 'utf8') !== readFileSync(wanted, 'utf8')) {
    throw new StackError(
      `package-lock.json has changed since the packages were installed: run make install in ${homes.checkout} as its owner`,
    );
  }
  finishSwap(home);
  homes.prepareHome(home);
}

/** Refuses ports that something listens on, and keeps other starts from choosing them before ours listen. */
async function checkPorts({ apiPort, verifyPort }: homes.Home): Promise<void> {
  for (const [name, port] of Object.entries({ api: apiPort, verify: verifyPort })) {
    const why = await whyTaken(port);
    if (why)
      throw new StackError(
        `port ${port} for ${name} ${why}; set KEYTALLY_PORT to another one, or stop what listens there`,
      );
    await reservePort(port);
  }
}

function tellLine(line: string): void {
  void tell({ line });
}

async function tell(message: Message): Promise<void> {
  if (process.connected) await new Promise((resolve) => process.send?.(message, resolve));
}
