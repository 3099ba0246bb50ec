// Many events to a receiver that fails half the time, while everything is killed: node tests/webhooks/main.ts [--events N]
import '../../shared/runtime/require-node.ts';
import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../runner/servers.ts';
import { percentile, storm, type Account } from './storm.ts';

const ROUND_MS = 1_000;
const MOST_DELAY_MS = 1_000;

const { values } = parseArgs({ options: { events: { type: 'string', default: '10000' } } });
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  const events = Number(values.events);
  if (!(events >= 100)) throw new StackError('usage: main.ts [--events N, 100 or more]');
  const { servers } = await startTestServers(folder, console.log);
  const environment = testEnvironment(servers, folder, 1);
  Object.assign(process.env, environment);
  mkdirSync(environment.TEST_FOLDER!, { recursive: true });
  const began = performance.now();
  const say = (line: string) =>
    console.log(`${((performance.now() - began) / 1000).toFixed(1).padStart(6)} s  ${line}`);
  const report = await storm({ events, roundMs: ROUND_MS, say });
  say(`${report.events} events; killed: ${report.killed.join(', ')}`);
  for (const name of ['failing', 'steady'] as const) say(`${name} receiver: ${describe(report[name])}`);
  const late = percentile(report.steady.delaysMs, 99);
  const broken = [report.failing, report.steady].some(
    ({ missing, doubled, unsigned }) => missing.length + doubled.length + unsigned > 0,
  );
  if (late > MOST_DELAY_MS) console.error(`MISSED  the steady receiver waits ${late.toFixed(0)} ms (p99)`);
  if (broken || late > MOST_DELAY_MS) process.exitCode = 1;
}

function describe({ missing, doubled, unsigned, requests, delaysMs }: Account): string {
  const delays = [50, 95, 99, 100].map((of100) => `p${of100} ${percentile(delaysMs, of100).toFixed(0)} ms`).join(', ');
  const problems = `${missing.length} missing, ${doubled.length} under two ids, ${unsigned} with a wrong signature`;
  return `${requests} requests, ${problems}; first try after ${delays}`;
}
