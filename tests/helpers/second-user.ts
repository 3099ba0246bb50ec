// What another user of the machine gets of a stack: run as that user with a list of files, and the ports of the stack. Prints the files
// that it could open, and of each port what it answered.
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';

const { paths, ports } = JSON.parse(readFileSync(0, 'utf8')) as { paths: string[]; ports: number[] };

const STARTUP = Buffer.concat([Buffer.from([0, 3, 0, 0]), Buffer.from('user\0postgres\0database\0postgres\0\0')]);
const LENGTH = Buffer.from([0, 0, 0, STARTUP.length + 4]);
const openings = ['DBSIZE\r\n', 'GET /?query=select%201 HTTP/1.0\r\n\r\n', Buffer.concat([LENGTH, STARTUP])];
const SAYS_NOTHING_MS = 3_000;

const opened = paths.filter((path) => {
  try {
    closeSync(openSync(path, 'r'));
    return true;
  } catch {
    return false;
  }
});
const asked = ports.flatMap((port) =>
  openings.map((opening) => firstWords(port, opening).then((said) => [port, said])),
);
console.log(JSON.stringify({ opened, said: await Promise.all(asked) }));

function firstWords(port: number, opening: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(opening));
    socket.setEncoding('latin1').setTimeout(SAYS_NOTHING_MS);
    socket.on('data', (text) => {
      resolve(String(text));
      socket.destroy();
    });
    socket.on('timeout', () => socket.destroy()).on('error', () => {});
    socket.on('close', () => resolve(''));
  });
}
