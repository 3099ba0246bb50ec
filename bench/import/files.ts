import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** A file of keys as another system exports them. */
export type ExportFile = { name: string; path: string; keys: number };

type Export = { head: string; entryOf(secret: string, i: number): string; between: string; end: string };

// Each with the fields that its system's export has and keytally takes.
const exports: Record<string, Export> = {
  'unkey.csv': {
    head: 'id,hash,start,name,owner_id,meta,expires,enabled,remaining_requests\n',
    entryOf: (secret, i) =>
      `key_${i},${digestOf(secret, 'base64')},acme_3Z,"name ${i}",customer-${i},"{""plan"":""pro""}",2099-01-02 03:04:05.678,1,`,
    between: '\n',
    end: '\n',
  },
  'kong.json': {
    head: '{"_format_version": "3.0", "consumers": [\n',
    entryOf: (secret, i) =>
      JSON.stringify({ username: `customer-${i}`, keyauth_credentials: [{ key: secret, tags: ['gold'] }] }),
    between: ',\n',
    end: '\n]}\n',
  },
  'litellm.csv': {
    head: 'token,key_alias,user_id,team_id,expires,metadata,blocked,rpm_limit\n',
    entryOf: (secret, i) => `${digestOf(secret, 'hex')},alias-${i},customer-${i},team-${i % 100},,{},f,`,
    between: '\n',
    end: '\n',
  },
};

const ENTRIES_PER_WRITE = 1_000;

/** Writes some keys as three systems would export them, a third each. */
export async function writeExports(folder: string, keys: number): Promise<ExportFile[]> {
  const names = Object.keys(exports);
  const files = names.map((name, i) => ({
    name,
    path: join(folder, name),
    keys: Math.floor(((i + 1) * keys) / names.length) - Math.floor((i * keys) / names.length),
  }));
  for (const file of files) await pipeline(Readable.from(textOf(file)), createWriteStream(file.path, { mode: 0o600 }));
  return files;
}

/** The secret of a file's key, and whose it is. */
export function keyOf({ name }: ExportFile, i: number): { key: string; customerId: string } {
  return { key: `sk-${createHash('sha256').update(`${name} ${i}`).digest('base64url')}`, customerId: `customer-${i}` };
}

function* textOf(file: ExportFile): Generator<string> {
  const { head, entryOf, between, end } = exports[file.name]!;
  yield head;
  for (let from = 0; from < file.keys; from += ENTRIES_PER_WRITE) {
    const count = Math.min(ENTRIES_PER_WRITE, file.keys - from);
    const entries = Array.from({ length: count }, (_, i) => entryOf(keyOf(file, from + i).key, from + i));
    yield (from > 0 ? between : '') + entries.join(between);
  }
  yield end;
}

function digestOf(secret: string, encoding: 'hex' | 'base64'): string {
  return createHash('sha256').update(secret).digest(encoding);
}
