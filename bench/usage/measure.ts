import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import { createWriteStream, globSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { readRecords } from '../../apps/stack/process/leftovers.ts';
import { must } from '../../tests/helpers/customers.ts';
import { eventually, spawnWorld, type ProcessWorld } from '../../tests/helpers/world.ts';
import { watchMemory } from '../history/memory.ts';
import { insertRefusals, insertUsage, makeRecords, planUsage, type Plan } from './fill.ts';
import { exportQuery, questionsOf, type Question } from './questions.ts';
import { readBack } from './read-back.ts';

/** How long the middle one of some answers took, and what one of them is. */
export type Asked = { name: string; p50Ms: number; withinMs: number; bytes: number; rows: number };
/** An export: its file, the time until its last byte, and the most memory that was taken meanwhile. */
export type Exported = {
  format: 'csv' | 'parquet';
  bytes: number;
  rows: number;
  seconds: number;
  apiMb: number;
  clickhouseMb: number;
  reader: string;
};
export type Measured = {
  bytesPerEvent: number;
  asked: Asked[];
  exported: Exported[];
  /** What is not as it must be. */
  wrong: string[];
};

type Options = {
  events: number;
  records: number;
  days: number;
  /** How often each question is asked. */
  tries: number;
  folder: string;
  say(line: string): void;
  told(done: number, all: number): void;
};

const SETUP_WITHIN_MS = 600_000;

/** Fills a workspace, exports everything in both forms, and asks each question many times. */
export async function measureUsage(options: Options): Promise<Measured> {
  const { events, records, days, tries, folder, say, told } = options;
  // By its folder the run finds the api when it is cut off.
  const world = await spawnWorld([], { TEST_FOLDER: process.env.TEST_FOLDER! });
  const client = createClient({
    url: world.env.CLICKHOUSE_URL!,
    request_timeout: SETUP_WITHIN_MS,
    log: { level: ClickHouseLogLevel.OFF },
  });
  try {
    const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'usage' }))).body;
    const plan = planUsage({ teamId: world.team.id, workspaceId: workspace.id, events, records }, days, Date.now());
    await makeRecords(world, plan);
    await insertUsage(client, plan, (done) => told(done, events));
    await insertRefusals(client, plan);
    const bytesPerEvent = (await bytesOfEvents(client)) / events;
    const [asked, exported, wrong]: [Asked[], Exported[], string[]] = [[], [], []];
    // First of all: what other questions took of memory would count with them.
    for (const format of ['csv', 'parquet'] as const) {
      const { problems, ...one } = await exportAll({ world, client, folder }, plan, format);
      say(`${format}: ${(one.bytes / 1e6).toFixed(0)} MB in ${one.seconds.toFixed(1)} s, read by ${one.reader}`);
      exported.push(one);
      wrong.push(...problems);
    }
    for (const question of questionsOf(plan)) {
      const one = await askOften(world, question, tries);
      say(`${one.name}: ${one.p50Ms.toFixed(0)} ms`);
      asked.push(one);
      wrong.push(...(await wrongSums(client, plan, question, one)));
    }
    // Beside other tests there are files of theirs, each for a moment.
    const answers = join(dirname(process.env.TEST_FOLDER!), '**/answers/*');
    await eventually('no file is left', async () => globSync(answers).length === 0);
    return { bytesPerEvent, asked, exported, wrong };
  } finally {
    await client.close();
    await world.stop();
  }
}

type Answered = Asked & { micros: bigint; events: number };

async function askOften(
  world: ProcessWorld,
  { name, path, query, withinMs }: Question,
  tries: number,
): Promise<Answered> {
  const url = `${world.api.url}${path}?${new URLSearchParams(query).toString()}`;
  const took: number[] = [];
  let text = '';
  for (let i = 0; i < tries; i++) {
    const began = performance.now();
    const answer = await fetch(url, { headers: { Authorization: `Bearer ${world.team.token}` } });
    text = await answer.text();
    took.push(performance.now() - began);
    if (answer.status !== 200) throw new Error(`${name}: ${answer.status} ${text.slice(0, 500)}`);
  }
  const sums = query.format === 'csv' ? sumsOfCsv(text) : sumsOfJson(text);
  const p50Ms = took.toSorted((a, b) => a - b)[Math.floor(took.length / 2)]!;
  return { name, withinMs, p50Ms, bytes: Buffer.byteLength(text), ...sums };
}

function sumsOfCsv(text: string) {
  const lines = text.split('\r\n').slice(1, -1);
  let [micros, events] = [0n, 0];
  for (const line of lines) {
    const [amount, count] = line.split(',').slice(-2);
    micros += microsOf(amount!);
    events += Number(count);
  }
  return { rows: lines.length, micros, events };
}

function sumsOfJson(text: string) {
  const { data } = JSON.parse(text) as { data: { totalBillingUsage?: string; events?: number; count?: number }[] };
  let [micros, events] = [0n, 0];
  for (const row of data) {
    micros += microsOf(row.totalBillingUsage ?? '0');
    events += row.events ?? row.count ?? 0;
  }
  return { rows: data.length, micros, events };
}

function microsOf(amount: string): bigint {
  const [whole = '', fraction = ''] = amount.split('.');
  return BigInt(whole + fraction.padEnd(6, '0'));
}

/** Compares an answer with the sum over the events between two instants: a query that knows nothing of days and sums. */
async function wrongSums(client: ClickHouseClient, plan: Plan, { sums }: Question, found: Answered): Promise<string[]> {
  const at = (date: string, days: number) =>
    Temporal.PlainDate.from(date).add({ days }).toZonedDateTime(sums.timezone).epochMilliseconds;
  const between = { from: at(sums.first, 0), to: at(sums.last, 1), billingId: sums.billingId ?? '' };
  const { micros, events } =
    sums.of === 'calls'
      ? { micros: 0n, events: await countCalls(client, plan, between) }
      : await sumOfEvents(client, plan, between);
  if (micros === found.micros && events === found.events) return [];
  return [`${found.name}: ${found.micros} in ${found.events} events instead of ${micros} in ${events}`];
}

async function countCalls(client: ClickHouseClient, plan: Plan, { from, to }: Between): Promise<number> {
  const { teamId, workspaceId } = plan;
  const result = await client.query({
    query: `
      select (select count() from usage_events final where workspace_id = {workspaceId:String} and kind = 'verification'
                and time >= fromUnixTimestamp64Milli({from:Int64}) and time < fromUnixTimestamp64Milli({to:Int64}))
        + (select sum(calls) from refusals final where team_id = {teamId:String} and workspace_id = {workspaceId:String}
             and minute >= fromUnixTimestamp64Milli({from:Int64}) and minute < fromUnixTimestamp64Milli({to:Int64})) as calls`,
    query_params: { teamId, workspaceId, from, to },
    format: 'JSONEachRow',
  });
  const [row] = await result.json<{ calls: string }>();
  return Number(row!.calls);
}

type Between = { from: number; to: number; billingId: string };

async function sumOfEvents(client: ClickHouseClient, { workspaceId }: Plan, { from, to, billingId }: Between) {
  const result = await client.query({
    query: `
      select toString(sum(toInt128(cost_micros))) as micros, countIf(kind = 'verification') as events from usage_events final
      where workspace_id = {workspaceId:String} and {billingId:String} in ('', billing_id)
        and time >= fromUnixTimestamp64Milli({from:Int64}) and time < fromUnixTimestamp64Milli({to:Int64})`,
    query_params: { workspaceId, billingId, from, to },
    format: 'JSONEachRow',
  });
  const [row] = await result.json<{ micros: string; events: string }>();
  return { micros: BigInt(row!.micros), events: Number(row!.events) };
}

type Exporting = { world: ProcessWorld; client: ClickHouseClient; folder: string };

async function exportAll({ world, client, folder }: Exporting, plan: Plan, format: Exported['format']) {
  const file = join(folder, `usage.${format}`);
  const [clickhouse] = readRecords(dirname(process.env.TEST_FOLDER!)).filter(({ name }) => name === 'clickhouse');
  const memory = watchMemory(() => ({ api: world.api.process.pid, clickhouse: clickhouse?.pid }));
  try {
    memory.reset();
    const began = performance.now();
    const query = new URLSearchParams({ ...exportQuery(plan), format }).toString();
    const headers = { Authorization: `Bearer ${world.team.token}` };
    const answer = await fetch(`${world.api.url}/api/v1/usage?${query}`, { headers });
    if (answer.status !== 200) throw new Error(`${format}: ${answer.status} ${await answer.text()}`);
    await pipeline(Readable.fromWeb(answer.body as Parameters<typeof Readable.fromWeb>[0]), createWriteStream(file));
    const seconds = (performance.now() - began) / 1000;
    const peaks = memory.peaks();
    const bytes = statSync(file).size;
    const found = await readBack(client, file, format);
    const all = await sumOfEvents(client, plan, { from: 0, to: Date.now() + 2 * 86_400_000, billingId: '' });
    const problems: string[] = [];
    if (bytes !== Number(answer.headers.get('content-length'))) problems.push(`${format}: not all of it came`);
    if (found.micros !== all.micros || found.events !== all.events)
      problems.push(`${format}: ${found.micros} in ${found.events} events instead of ${all.micros} in ${all.events}`);
    const [apiMb, clickhouseMb] = [peaks.get('api') ?? NaN, peaks.get('clickhouse') ?? NaN];
    return { format, bytes, rows: found.rows, seconds, apiMb, clickhouseMb, reader: found.reader, problems };
  } finally {
    memory.stop();
    rmSync(file, { force: true });
  }
}

async function bytesOfEvents(client: ClickHouseClient): Promise<number> {
  const query = `select sum(bytes_on_disk) as bytes from system.parts where database = currentDatabase() and table = 'usage_events' and active`;
  const [row] = await (await client.query({ query, format: 'JSONEachRow' })).json<{ bytes: string }>();
  return Number(row!.bytes);
}
