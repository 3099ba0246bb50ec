import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

export type NameServer = Awaited<ReturnType<typeof startNameServer>>;

const HEADER = 12;
const TYPES = { 1: 4, 28: 6 } as const;

/** A server of names over UDP that answers what `answer` says at that moment, or nothing at all; it notes each question. */
export async function startNameServer(answer: (name: string) => string[] | 'silence') {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  socket.on('message', (message, { port, address }) => {
    const { name, family, end } = question(message);
    asked.push(`${name} ${family}`);
    const found = answer(name);
    if (found === 'silence') return;
    const records = found.filter((one) => isIP(one) === family).map(record);
    const reply = Buffer.concat([message.subarray(0, end), ...records]);
    reply.writeUInt16BE(0x8180, 2);
    reply.writeUInt16BE(records.length, 6);
    reply.writeUInt32BE(0, 8);
    socket.send(reply, port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    stop: () => new Promise<void>((resolve) => void socket.close(() => resolve())),
  };
}

function question(message: Buffer): { name: string; family: number; end: number } {
  const labels: string[] = [];
  let at = HEADER;
  for (let length = message[at]!; length > 0; length = message[at]!) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = message.readUInt16BE(at + 1) as keyof typeof TYPES;
  return { name: labels.join('.').toLowerCase(), family: TYPES[type] ?? 0, end: at + 5 };
}

/** A record for the name of the question, which may be kept for no time. */
function record(address: string): Buffer {
  const bytes = Buffer.from(ipaddr.parse(address).toByteArray());
  const start = Buffer.alloc(HEADER);
  start.writeUInt16BE(0xc0_0c, 0);
  start.writeUInt16BE(bytes.length === 4 ? 1 : 28, 2);
  start.writeUInt16BE(1, 4);
  start.writeUInt16BE(bytes.length, 10);
  return Buffer.concat([start, bytes]);
}
