import type { ClickHouseClient } from '@clickhouse/client';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/** What a file adds up to, and what has read it. */
export type Sums = { rows: number; micros: bigint; events: number; reader: string };

const DUCKDB = `
import sys, duckdb
path, form = sys.argv[1:]
table = "read_parquet(?)" if form == "parquet" else "read_csv(?, header=true, types={'totalBillingUsage': 'DECIMAL(38,6)'})"
row = duckdb.execute("set memory_limit = '500MB'; select count(*), cast(sum(totalBillingUsage) * 1000000 as hugeint), sum(events) from " + table, [path]).fetchone()
print(*row, "DuckDB", duckdb.__version__)
`;

const CSV_COLUMNS =
  'start String, billingId String, externalMeterId String, usageName String, apiKeyId String, route String, other Bool, customerId String, totalBillingUsage Decimal(38, 6), events UInt64';

/** Reads a whole file: by DuckDB, where this Python has it, else by ClickHouse. */
export async function readBack(client: ClickHouseClient, file: string, format: 'csv' | 'parquet'): Promise<Sums> {
  const told =
    (await runPython(process.env.PYTHON ?? 'python3', DUCKDB, [file, format])) ?? (await ask(client, file, format));
  const [rows, micros, events, ...reader] = told.trim().split(/\s+/);
  return { rows: Number(rows), micros: BigInt(micros!), events: Number(events), reader: reader.join(' ') };
}

async function runPython(python: string, script: string, args: string[]): Promise<string | undefined> {
  const child = spawn(python, ['-c', script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close') as Promise<[number]>;
  try {
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    if (code === 0) return out;
    if (/No module named '?duckdb/.test(err)) return undefined;
    throw new Error(`${python} ended with ${code}: ${err.trim()}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function ask(client: ClickHouseClient, file: string, format: 'csv' | 'parquet'): Promise<string> {
  const source = format === 'csv' ? `file('${file}', CSVWithNames, '${CSV_COLUMNS}')` : `file('${file}', Parquet)`;
  const query = `select count(), toInt128(sum(totalBillingUsage) * 1000000), sum(events), 'ClickHouse' from ${source}`;
  return (await client.query({ query, format: 'TabSeparated' })).text();
}
