import { addressBits, blockBits } from './ip.ts';

// A list of blocks in bytes: how many are IPv4 (two bytes), then the IPv4 blocks and the IPv6 blocks, each as its address
// and the number of bits that count. Both are sorted and no block lies in another one, so that a search by halves finds the
// only one that an address may lie in.

const BYTES = { '4:': 4, '6:': 16 };

/** Packs blocks and addresses, each in the form that validation lets pass. */
export function packAddressList(texts: readonly string[]): Buffer {
  const blocks = merged(texts.map((text) => blockBits(text) ?? refuse(text)));
  const count = Buffer.alloc(2);
  count.writeUInt16BE(blocks.filter((block) => block.startsWith('4:')).length);
  return Buffer.concat([count, ...blocks.map((block) => Buffer.from([...bytesOf(block), block.length - 2]))]);
}

/** Whether an address lies in a block of a packed list. What is no address lies in none. */
export function isListed(list: Buffer, address: string): boolean {
  const bits = addressBits(address);
  if (bits === undefined) return false;
  const bytes = bytesOf(bits);
  const width = bytes.length;
  const inIpv4 = list.readUInt16BE(0);
  const start = width === 4 ? 2 : 2 + inIpv4 * 5;
  let low = 0;
  let high = width === 4 ? inIpv4 : (list.length - start) / 17;
  // Finds how many blocks begin at the address or before it.
  while (low < high) {
    const middle = (low + high) >>> 1;
    const at = start + middle * (width + 1);
    if (list.compare(bytes, 0, width, at, at + width) <= 0) low = middle + 1;
    else high = middle;
  }
  return low > 0 && beginsWith(bytes, list, start + (low - 1) * (width + 1));
}

/** Sorts blocks, drops those that lie in others, and joins two halves of a block into one. */
function merged(blocks: string[]): string[] {
  const kept: string[] = [];
  for (const block of blocks.toSorted()) {
    const last = kept.at(-1);
    if (last !== undefined && block.startsWith(last)) continue;
    let joined = block;
    while (joined.endsWith('1') && kept.at(-1) === `${joined.slice(0, -1)}0`) {
      kept.pop();
      joined = joined.slice(0, -1);
    }
    kept.push(joined);
  }
  return kept;
}

function bytesOf(bits: string): Buffer {
  const bytes = Buffer.alloc(BYTES[bits.slice(0, 2) as keyof typeof BYTES]);
  for (let i = 2; i < bits.length; i++) if (bits[i] === '1') bytes[(i - 2) >> 3]! |= 0x80 >> ((i - 2) & 7);
  return bytes;
}

function beginsWith(bytes: Buffer, list: Buffer, at: number): boolean {
  const length = list[at + bytes.length]!;
  const whole = length >> 3;
  if (bytes.compare(list, at, at + whole, 0, whole) !== 0) return false;
  const mask = (0xff00 >> (length & 7)) & 0xff;
  return mask === 0 || (bytes[whole]! & mask) === (list[at + whole]! & mask);
}

function refuse(text: string): never {
  throw new Error(`${text} is no address and no block of addresses`);
}
