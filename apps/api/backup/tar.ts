import type { Readable } from 'node:stream';

/** One file of an archive. */
export type Entry = { name: string; body: Buffer };

const BLOCK = 512;
// Ours have some ten megabytes: a larger size is that of another kind of file.
const MAX_ENTRY_BYTES = 1_000_000_000;

/** Writes entries as a tar file (ustar), which `tar` can list and unpack. */
export async function* toTar(entries: AsyncIterable<Entry>): AsyncGenerator<Buffer> {
  for await (const { name, body } of entries) {
    yield header(name, body.length);
    yield body;
    yield Buffer.alloc(padding(body.length));
  }
  yield Buffer.alloc(2 * BLOCK);
}

/** Reads what `toTar` wrote, one entry in memory at a time. Throws where it is anything else, or ends too early. */
export async function* fromTar(source: Readable): AsyncGenerator<Entry> {
  const bytes = makeTake(source);
  for (;;) {
    const block = await bytes.take(BLOCK);
    if (block.every((byte) => byte === 0)) return;
    const size = parseInt(text(block, 124, 12), 8);
    const isOurs = text(block, 257, 5) === 'ustar' && checksum(block) === parseInt(text(block, 148, 8), 8);
    if (!isOurs || !(size >= 0 && size <= MAX_ENTRY_BYTES)) throw new Error('it is damaged: not a tar file inside');
    const body = await bytes.take(size);
    await bytes.take(padding(size));
    yield { name: text(block, 0, 100), body };
  }
}

function header(name: string, size: number): Buffer {
  if (Buffer.byteLength(name) > 99) throw new Error(`the name ${name} is too long for a tar file`);
  const block = Buffer.alloc(BLOCK);
  block.write(name, 0);
  block.write('0000600\x000000000\x000000000\x00', 100);
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  block.write('00000000000\0', 136);
  block.write('0', 156);
  block.write('ustar\x0000', 257);
  block.write(`${checksum(block).toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

/** The sum of a header's bytes, with its own place read as spaces. */
function checksum(block: Buffer): number {
  let sum = 8 * 32;
  for (const [i, byte] of block.entries()) if (i < 148 || i >= 156) sum += byte;
  return sum;
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function text(block: Buffer, from: number, length: number): string {
  const field = block.subarray(from, from + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end === -1 ? length : end);
}

/** Takes exact numbers of bytes from a stream. */
function makeTake(source: Readable) {
  const chunks = source.iterator() as AsyncIterator<Buffer>;
  let rest: Buffer = Buffer.alloc(0);
  return {
    async take(wanted: number): Promise<Buffer> {
      const parts = [rest];
      let have = rest.length;
      while (have < wanted) {
        const next = await chunks.next();
        if (next.done) throw new Error('it is cut off');
        parts.push(next.value);
        have += next.value.length;
      }
      const all = parts.length === 1 ? rest : Buffer.concat(parts, have);
      rest = all.subarray(wanted);
      return all.subarray(0, wanted);
    },
  };
}
