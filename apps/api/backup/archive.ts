import { createHash, type Hash } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { fromTar, toTar, type Entry } from './tar.ts';

// A backup is a tar file, compressed with zstd. Its first entry is the header, its last one the manifest; between them are
// the tables, each in parts of whole rows or bytes: postgres/api_keys/000001, books/usage_events/000001.

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

/** Of a table's parts, one after the other. */
type Tally = { rows: number; bytes: number; sha256: string };
type Manifest = { tables: Record<string, Tally> };

/** A part of a table; `rows` end with a line break each. */
export type Part = { table: string; rows: Buffer };

const HEADER = 'header.json';
const MANIFEST = 'manifest.json';
// The first bytes of what zstd writes.
const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** Writes a backup to a stream; gives how many rows each table had. The stream's speed is that of the reading. */
export async function writeArchive(header: Header, parts: AsyncIterable<Part>, out: Writable): Promise<Rows> {
  const tallies = makeTallies();
  async function* entries(): AsyncGenerator<Entry> {
    yield { name: HEADER, body: toJson(header) };
    const numbers = new Map<string, number>();
    for await (const { table, rows } of parts) {
      const number = (numbers.get(table) ?? 0) + 1;
      numbers.set(table, number);
      tallies.add(table, rows);
      yield { name: `${table}/${String(number).padStart(6, '0')}`, body: rows };
    }
    yield { name: MANIFEST, body: toJson({ tables: tallies.all() } satisfies Manifest) };
  }
  await pipeline(toTar(entries()), createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } }), out);
  return rowsOf(tallies.all());
}

export type Rows = Record<string, number>;

/**
 * Reads a backup: `begin` gets its header, then `part` each part in turn. Throws at its end at the latest if anything of it
 * differs from what was written, so nothing of it counts before this has returned.
 */
export async function readArchive(
  source: Readable,
  { begin, part }: { begin(header: Header): void | Promise<void>; part(part: Part): void | Promise<void> },
): Promise<Rows> {
  const tallies = makeTallies();
  let header: Header | undefined;
  let manifest: Manifest | undefined;
  const read = async (tar: AsyncIterable<Buffer>) => {
    for await (const { name, body } of fromTar(tar as Readable)) {
      if (!header) {
        header = headerFrom(name, body);
        await begin(header);
        continue;
      }
      if (manifest) throw new Error('it is damaged: something follows its end');
      if (name === MANIFEST) {
        manifest = parse(body) as Manifest;
        continue;
      }
      const table = name.slice(0, name.lastIndexOf('/'));
      if (!Object.hasOwn(header.tables, table)) throw new Error(`it is damaged: unknown table ${table}`);
      tallies.add(table, body);
      await part({ table, rows: body });
    }
  };
  await pipeline(source, requireZstd, createZstdDecompress(), read).catch((error: unknown) => {
    throw readable(error);
  });
  if (!manifest) throw new Error('it is cut off');
  const [found, wanted] = [tallies.all(), manifest.tables];
  for (const table of new Set([...Object.keys(found), ...Object.keys(wanted)])) {
    if (JSON.stringify(found[table]) !== JSON.stringify(wanted[table]))
      throw new Error(`it is damaged: the table ${table} is not as it was written`);
  }
  return rowsOf(found);
}

function headerFrom(name: string, body: Buffer): Header {
  if (name !== HEADER) throw new Error('it is no backup made by make backup');
  const header = parse(body) as Header;
  // Compared as a number that another version may have written.
  if ((header.format as number) !== 1) throw new Error(`a newer version of keytally made it (format ${header.format})`);
  const names = [...Object.entries(header.tables).flat(2), ...Object.keys(header.sequences)];
  if (!names.every((one) => /^(postgres\/|books\/)?\w+$/.test(one))) throw new Error('it is damaged: odd names');
  return header;
}

// The checksum of the file comes only at its end.
function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch (error) {
    throw new Error('it is damaged: what describes it is no JSON', { cause: error });
  }
}

/** Passes on what begins as a file of zstd does. */
async function* requireZstd(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let start: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of chunks) {
    if (start) {
      start = Buffer.concat([start, chunk]);
      if (start.length < ZSTD.length) continue;
      if (!start.subarray(0, ZSTD.length).equals(ZSTD)) throw new Error('it is no backup made by make backup');
      yield start;
      start = undefined;
    } else yield chunk;
  }
  if (start) throw new Error('it is cut off');
}

// What zlib says of bytes that it can't read tells an operator nothing.
function readable(error: unknown): unknown {
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (code === 'Z_BUF_ERROR' || /unexpected end/i.test(message)) return new Error('it is cut off');
  return /^(ZSTD_|Z_|ERR_ZSTD|ERR_ZLIB)/.test(code) ? new Error(`it is damaged: ${message}`) : error;
}

function makeTallies() {
  const tallies = new Map<string, { rows: number; bytes: number; hash: Hash }>();
  return {
    add(table: string, rows: Buffer) {
      const tally = tallies.get(table) ?? { rows: 0, bytes: 0, hash: createHash('sha256') };
      tallies.set(table, tally);
      tally.rows += countRows(rows);
      tally.bytes += rows.length;
      tally.hash.update(rows);
    },
    all: (): Record<string, Tally> =>
      Object.fromEntries(
        [...tallies].map(([table, { rows, bytes, hash }]) => [
          table,
          { rows, bytes, sha256: hash.copy().digest('hex') },
        ]),
      ),
  };
}

/** Both stores write a line break inside a value as \n, so each row has one at its end alone. */
export function countRows(rows: Buffer): number {
  let count = 0;
  for (let at = rows.indexOf(10); at !== -1; at = rows.indexOf(10, at + 1)) count += 1;
  return count;
}

function rowsOf(tallies: Record<string, Tally>): Rows {
  return Object.fromEntries(Object.entries(tallies).map(([table, { rows }]) => [table, rows]));
}

function toJson(value: unknown): Buffer {
  return Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
}
