import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';

// A backup is lines of JSON, compressed with zstd, whose checksum is of all of it: the header; then the tables in parts of whole rows,
// each an array of the table's name and its rows as text; and `true` at the end.

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

export type OnProgress = (text: () => string) => void;
/** How many rows tables have. */
export type Rows = Record<string, number>;

/** Writes a backup to a stream; gives how many rows each table had. The stream's speed is that of the reading. */
export async function writeArchive(
  header: Header,
  parts: AsyncIterable<Part>,
  out: Writable,
  note: (part: Part) => void,
): Promise<Rows> {
  const counted: Rows = {};
  async function* lines(): AsyncGenerator<string> {
    yield `${JSON.stringify(header)}\n`;
    for await (const part of parts) {
      const { table, rows } = part;
      note(part);
      counted[table] = (counted[table] ?? 0) + countRows(rows);
      // The books may hold any bytes: as latin1, none of them is lost.
      yield `${JSON.stringify([table, rows.toString('latin1')])}\n`;
    }
    yield 'true\n';
  }
  await pipeline(lines(), createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } }), out);
  return counted;
}

/** What takes a backup: its header, then each part in turn, with the columns of its table. */
export type Taking = { begin(header: Header): unknown; part(part: Part, columns: string[]): unknown };
export type Loaded = { header: Header; rows: Rows };

/**
 * Reads a backup. Throws at its end at the latest if anything of it differs from what was written, so nothing of it counts before this
 * has returned.
 */
export async function readArchive(source: Readable, { begin, part }: Taking): Promise<Loaded> {
  const rows: Rows = {};
  let header: Header | undefined;
  let isWhole = false;
  const read = async (unpacked: AsyncIterable<Buffer>) => {
    // Read to its end, where zstd compares its checksum.
    for await (const text of linesOf(unpacked)) {
      const line = parsed(text);
      if (!header) await begin((header = headerFrom(line)));
      else if (Array.isArray(line)) {
        const [table, ofTable] = line as [string, string];
        const columns = Object.hasOwn(header.tables, table) ? header.tables[table] : undefined;
        if (!columns) throw new Error(`it is damaged: unknown table ${table}`);
        const bytes = Buffer.from(ofTable, 'latin1');
        rows[table] = (rows[table] ?? 0) + countRows(bytes);
        await part({ table, rows: bytes }, columns);
      } else isWhole = true;
    }
    if (!isWhole) throw new Error('it is cut off');
  };
  await pipeline(source, createZstdDecompress(), read).catch((error: unknown) => {
    throw readable(error);
  });
  return { header: header!, rows };
}

/** Says how far a backup is: what is done with its parts, and how much of it. */
export function progressOf(done: string, say: OnProgress): (part: Part) => void {
  let bytes = 0;
  return ({ table, rows }) => {
    bytes += rows.length;
    say(() => `${done} ${Math.round(bytes / 1e6).toLocaleString('en')} MB, now ${table}`);
  };
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

async function* linesOf(bytes: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let held: Buffer[] = [];
  for await (const chunk of bytes) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      yield Buffer.concat([...held, chunk.subarray(from, at)]).toString();
      held = [];
      from = at + 1;
    }
    held.push(chunk.subarray(from));
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    // The checksum of the file comes only at its end.
    throw new Error('it is damaged: a line of it is no JSON', { cause: error });
  }
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
