import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../../tests/helpers/eventually.ts';
import { openHome, prepareHome } from '../process/home.ts';
import { readRecords } from '../process/leftovers.ts';
import { startServers } from './temporary-servers.ts';

test('that a server ended is said, that it was stopped is not', async () => {
  const home = openHome({ KEYTALLY_HOME: join(process.env.TEST_FOLDER ?? '', 'home') });
  prepareHome(home);
  const say = console.error;
  const said: string[] = [];
  console.error = (line: string) => void said.push(line);
  try {
    const servers = await startServers(home, ['redis'], new AbortController().signal);
    const [first] = readRecords(home.folder);
    process.kill(first!.pid, 'SIGKILL');
    await eventually('it runs again', async () => readRecords(home.folder).some(({ pid }) => pid !== first!.pid));
    await servers.stop();
  } finally {
    console.error = say;
  }
  assert.equal(said, ['redis was ended by SIGKILL; starting it again in 50 ms']);
});

test.run();
