import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';

// A backup is compressed with zstd, whose checksum is of all of it. In it is the header, a line of JSON; then the tables in parts of
// whole rows, each behind a line that names its table and its length; and a line that ends it.

/** What a reader must know before the tables. */
export type Header = {
  format: 1;
  /** The version of keytally that made it. */
  keytally: string;
  /** It has all usage from before this moment (Redis's clock), and none from it on. */
  usageBefore: string;
  /** It has the settings of this moment (Postgres's clock). */
  settingsAt: string;
  /** The migrations that its tables have. */
  migrations: { postgres: string[]; clickhouse: string[] };
  /** The columns of its tables, by the name of the table's folder in it. */
  tables: Record<string, string[]>;
  sequences: Record<string, string>;
  /** The names of the master keys under which its signing keys are sealed. */
  sealedUnder: string[];
};

/** A part of a table; `rows` end with a line break each. */
export type Part = { table: string; rows: Buffer };

type Line = { table: string; bytes: number } | { end: true };

// Ours have some ten megabytes: a larger one is damaged.
const MOST_OF_A_PART = 1_000_000_000;

/** How many rows tables have. */
export type Rows = Record<string, number>;

/** Writes a backup to a stream; gives how many rows each table had. The stream's speed is that of the reading. */
export async function writeArchive(header: Header, parts: AsyncIterable<Part>, out: Writable): Promise<Rows> {
  const counted: Rows = {};
  const line = (value: Header | Line) => Buffer.from(`${JSON.stringify(value)}\n`);
  async function* pieces(): AsyncGenerator<Buffer> {
    yield line(header);
    for await (const { table, rows } of parts) {
      counted[table] = (counted[table] ?? 0) + countRows(rows);
      yield line({ table, bytes: rows.length });
      yield rows;
    }
    yield line({ end: true });
  }
  await pipeline(pieces(), createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } }), out);
  return counted;
}

/**
 * Reads a backup: `begin` gets its header, then `part` each part in turn. Throws at its end at the latest if anything of it
 * differs from what was written, so nothing of it counts before this has returned.
 */
export async function readArchive(
  source: Readable,
  { begin, part }: { begin(header: Header): void | Promise<void>; part(part: Part): void | Promise<void> },
): Promise<Rows> {
  const counted: Rows = {};
  const read = async (unpacked: AsyncIterable<Buffer>) => {
    const bytes = takeFrom(unpacked);
    const header = headerFrom(await bytes.line());
    await begin(header);
    for (let line = (await bytes.line()) as Line; !('end' in line); line = (await bytes.line()) as Line) {
      const { table } = line;
      if (!Object.hasOwn(header.tables, table) || !(line.bytes <= MOST_OF_A_PART))
        throw new Error(`it is damaged: unknown table ${table}`);
      const rows = await bytes.take(line.bytes);
      counted[table] = (counted[table] ?? 0) + countRows(rows);
      await part({ table, rows });
    }
    await bytes.untilEnd();
  };
  await pipeline(source, createZstdDecompress(), read).catch((error: unknown) => {
    throw readable(error);
  });
  return counted;
}

function headerFrom(line: unknown): Header {
  const header = line as Header;
  // Compared as a number that another version may have written.
  if ((header.format as number) !== 1) throw new Error(`a newer version of keytally made it (format ${header.format})`);
  const { tables, sequences, migrations, sealedUnder } = header;
  if (!tables || !sequences || !migrations || !sealedUnder)
    throw new Error('it is damaged: its header lacks something');
  const names = [...Object.entries(tables).flat(2), ...Object.keys(sequences)];
  if (!names.every((one) => /^(postgres\/|books\/)?\w+$/.test(one))) throw new Error('it is damaged: odd names');
  return header;
}

/** Takes lines of JSON and exact numbers of bytes from a stream. */
function takeFrom(source: AsyncIterable<Buffer>) {
  const chunks = source[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  async function more(): Promise<Buffer> {
    const next = await chunks.next();
    if (next.done) throw new Error('it is cut off');
    return next.value;
  }
  async function take(wanted: number): Promise<Buffer> {
    const parts = [rest];
    let have = rest.length;
    while (have < wanted) have += parts[parts.push(await more()) - 1]!.length;
    const all = parts.length === 1 ? rest : Buffer.concat(parts, have);
    rest = all.subarray(wanted);
    return all.subarray(0, wanted);
  }
  return {
    take,
    async line(): Promise<unknown> {
      while (!rest.includes(10)) rest = Buffer.concat([rest, await more()]);
      const line = await take(rest.indexOf(10) + 1);
      try {
        return JSON.parse(line.toString());
      } catch (error) {
        // The checksum of the file comes only at its end.
        throw new Error('it is damaged: what describes it is no JSON', { cause: error });
      }
    },
    /** Lets zstd compare its checksum. */
    async untilEnd(): Promise<void> {
      while (!(await chunks.next()).done);
    },
  };
}

// What zlib says of bytes that it can't read tells an operator nothing.
function readable(error: unknown): unknown {
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (code === 'ZSTD_error_prefix_unknown') return new Error('it is no backup made by make backup');
  if (code === 'Z_BUF_ERROR' || /unexpected end/i.test(message)) return new Error('it is cut off');
  return /^(ZSTD_|Z_|ERR_ZSTD|ERR_ZLIB)/.test(code) ? new Error(`it is damaged: ${message}`) : error;
}

/** Both stores write a line break inside a value as \n, so each row has one at its end alone. */
export function countRows(rows: Buffer): number {
  let count = 0;
  for (let at = rows.indexOf(10); at !== -1; at = rows.indexOf(10, at + 1)) count += 1;
  return count;
}
