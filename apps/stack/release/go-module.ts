import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';

type Options = { source: string; version: string; committedAt: Date; folder: string };

/**
 * Writes the Go client as a module proxy has it (https://go.dev/ref/mod#goproxy-protocol), so that a folder of them is a proxy: the
 * zip has every file of the module's folder, and the licence of the repository, which the go command adds where a module has none.
 */
export function writeGoModule({ source, version, committedAt, folder }: Options): void {
  const module = join(source, 'clients/go');
  const mod = readFileSync(join(module, 'go.mod'));
  const [, path = ''] = /^module (\S+)$/m.exec(mod.toString()) ?? [];
  const files = readdirSync(module, { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile())
    .map((one) => join(one.parentPath, one.name))
    .map((file) => ({ name: relative(module, file).replaceAll(sep, '/'), bytes: readFileSync(file) }));
  files.push({ name: 'LICENSE', bytes: readFileSync(join(source, 'LICENSE')) });
  const entries = files
    .map(({ name, bytes }) => ({ name: `${path}@v${version}/${name}`, bytes }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));

  const versions = join(folder, path, '@v');
  mkdirSync(versions, { recursive: true });
  const time = `${committedAt.toISOString().slice(0, 19)}Z`;
  writeFileSync(join(versions, `v${version}.zip`), zip(entries));
  writeFileSync(join(versions, `v${version}.mod`), mod);
  writeFileSync(join(versions, `v${version}.info`), JSON.stringify({ Version: `v${version}`, Time: time }));
  writeFileSync(join(versions, 'list'), `v${version}\n`);
}

const VERSION_OF_DEFLATE = 20;
const UTF_8_NAMES = 0x0800;
const DEFLATED = 8;
// 1 January 1980, the first day that a zip can name: as the go command has no times in its own.
const NO_DATE = 0x0021;

/** A zip of files, which says nothing of them but their names and bytes. */
function zip(files: { name: string; bytes: Buffer }[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name, bytes } of files) {
    const text = Buffer.from(name);
    const packed = deflateRawSync(bytes, { level: 9 });
    const about = Buffer.alloc(26);
    about.writeUInt16LE(VERSION_OF_DEFLATE, 0);
    about.writeUInt16LE(UTF_8_NAMES, 2);
    about.writeUInt16LE(DEFLATED, 4);
    about.writeUInt16LE(NO_DATE, 8);
    about.writeUInt32LE(crc32(bytes), 10);
    about.writeUInt32LE(packed.length, 14);
    about.writeUInt32LE(bytes.length, 18);
    about.writeUInt16LE(text.length, 22);
    const before = Buffer.from('PK\x03\x04');
    parts.push(before, about, text, packed);
    // Comment, disk and attributes are empty.
    const place = Buffer.alloc(14);
    place.writeUInt32LE(at, 10);
    directory.push(Buffer.from('PK\x01\x02'), uint16(VERSION_OF_DEFLATE), about, place, text);
    at += before.length + about.length + text.length + packed.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06');
  end.writeUInt16LE(files.length, 8);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(listed.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...parts, listed, end]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}
