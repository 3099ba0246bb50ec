import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openHome } from '../process/home.ts';
import { up } from './up.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'up');
const { getuid } = process;
const { log } = console;

test.after.each(() => {
  if (getuid) process.getuid = getuid;
  console.log = log;
});

test('a start by root says what that risks, and one by another user does not', async () => {
  // A start that fails before it has started anything.
  const listener = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => listener.once('listening', resolve));
  const { port } = listener.address() as AddressInfo;
  const home = openHome({ KEYTALLY_HOME: join(folder, 'home'), KEYTALLY_PORT: String(port) });
  for (const uid of [0, 1_000]) {
    const said: string[] = [];
    console.log = (line: string) => void said.push(line);
    process.getuid = () => uid;
    const error = await up(home).then(() => 'it started', String);
    assert.match(error, `port ${port} for api is in use`);
    assert.is(
      said.join('\n').includes('it runs as root, so whoever takes over one of its programs has this'),
      uid === 0,
    );
  }
  listener.close();
});
