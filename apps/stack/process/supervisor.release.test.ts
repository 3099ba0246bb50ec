import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../../tests/helpers/eventually.ts';
import { readJson } from './files.ts';
import { PART_BYTES } from './log-file.ts';
import { freePorts } from './ports.ts';
import { identify, isAlive } from './processes.ts';
import { answersOk, type Program } from './program.ts';
import { makeSupervisor } from './supervisor.ts';

// Programs that end, hang and come late.

const folder = join(process.env.TEST_FOLDER ?? '', 'supervisor');
const said: string[] = [];

test('programs stop in the order asked for and stay down, and one that does not stop is killed', async () => {
  const { supervisor, processes } = supervise('ordered');
  const stubborn = await serving('stubborn', "process.on('SIGTERM', () => {})");
  const programs = [await serving('last'), { ...stubborn, stopWithinMs: 300 }, await serving('first')];
  await Promise.all(programs.map((program) => supervisor.add(program)));
  const ids = Object.values(processes()).map(({ pid }) => identify(pid)!);
  assert.is(ids.length, 3);
  said.length = 0;
  await supervisor.stop(['first', 'stubborn']);
  assert.equal(said, ['first stopped', 'stubborn did not stop in time and was ended', 'last stopped']);
  assert.equal([ids.filter(isAlive), processes()], [[], {}]);
});

test('a program that is not ready in time is stopped; one that may be late runs on, and again when it ends', async () => {
  const { supervisor, processes } = supervise('late', 200);
  const never = { isReady: () => Promise.resolve(false) };
  const refused = await supervisor.add({ ...(await serving('stopped')), ...never }).catch(String);
  assert.match(String(refused), /stopped was not ready within 0.2 s/);
  assert.equal(processes(), {});
  const told: string[] = [];
  await supervisor.add({ ...(await serving('late')), ...never }, ({ message }) => void told.push(message));
  assert.match(told.join(), /^late was not ready within 0.2 s/);
  const before = processes().late!;
  process.kill(before.pid, 'SIGKILL');
  await eventually('it runs again', async () => ![undefined, before.pid].includes(processes().late?.pid));
  await supervisor.stop([]);
});

test('a log that can not be shortened is told, once, and keeps no other one from it', async () => {
  const own = join(folder, 'logs');
  // Where the copy of its head would be written.
  mkdirSync(join(own, 'supervisor.log.new'), { recursive: true });
  for (const name of ['supervisor', 'other']) writeFileSync(join(own, `${name}.log`), Buffer.alloc(PART_BYTES + 1));
  said.length = 0;
  const { supervisor } = supervise('logs');
  await supervisor.add(await serving('other'));
  await eventually('it is shortened', () => Promise.resolve(existsSync(join(own, 'other.log.1'))));
  await supervisor.stop([]);
  assert.is(said.filter((line) => line.startsWith('the logs or processes.json could not be written')).length, 1);
});

function supervise(name: string, readyWithinMs = 120_000) {
  const own = join(folder, name);
  mkdirSync(own, { recursive: true });
  const logFile = (one: string) => join(own, `${one}.log`);
  const say = (line: string) => void said.push(line);
  const file = join(own, 'processes.json');
  return {
    supervisor: makeSupervisor({ folder: own, logFile, say, readyWithinMs }),
    processes(): Record<string, { pid: number; port: number }> {
      assert.not.throws(() => JSON.parse(readFileSync(file, 'utf8')), 'the file is complete at any time');
      return readJson(file) ?? {};
    },
  };
}

async function serving(name: string, first = ''): Promise<Program> {
  const [port = 0] = await freePorts(1);
  const code = `${first}; require('node:http').createServer((q, r) => r.end()).listen(${port}, '127.0.0.1')`;
  const isReady = () => answersOk(`http://127.0.0.1:${port}`);
  return { name, port, command: process.execPath, args: ['-e', code], env: {}, isReady };
}
