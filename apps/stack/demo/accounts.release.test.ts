import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keytally } from '../../../clients/node/index.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../../tests/helpers/world.ts';
import { showAccounts } from './accounts.ts';

let world: World;

const test = suite('what the demo shows of accounts');
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  await world.start('webhooks');
});
test.after(() => world?.stop());

test('a grant that goes first, a captured hold, a limit in a zone, an alert and a webhook answer as the demo expects', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  const { api, verify, team } = world;
  const client = keytally({ url: api.url, verifyUrl: verify!.url, token: team.token, verifyTimeoutMs: 20_000 });
  assert.is(await showAccounts(client, workspace.id), true);
});

test.run();
