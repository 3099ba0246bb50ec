import { once } from 'node:events';
import { connect } from 'node:net';
import type { Redis } from 'ioredis';

/**
 * The commands that Redis runs while something is done, each in quotes as MONITOR tells it, those of scripts too. By a connection of
 * its own: that of ioredis fails by chance when a command is told before it knows that it monitors.
 */
export async function commandsDuring(redis: Redis, work: () => Promise<void>): Promise<string[]> {
  const { host, port, password } = redis.options;
  const socket = connect({ host, port: port! }).setEncoding('utf8');
  let text = '';
  socket.on('data', (part: string) => (text += part));
  const until = async (ending: () => boolean) => {
    while (!ending()) await once(socket, 'data');
  };
  try {
    socket.write(`${password ? `AUTH ${password}\r\n` : ''}MONITOR\r\n`);
    await until(() => text.split('+OK\r\n').length > (password ? 2 : 1));
    await work();
    const mark = `done-${process.hrtime.bigint()}`;
    // What Redis did before it is told before it.
    await redis.echo(mark);
    await until(() => text.includes(`"${mark}"\r\n`));
    return text.slice(0, text.indexOf(mark)).split('\r\n');
  } finally {
    socket.destroy();
  }
}
