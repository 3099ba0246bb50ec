// The program of docs/usage-and-statements.md that makes invoices, saved and called as the page says.
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { backdate, backdateRows } from '../helpers/backdate.ts';
import { eventually, makeCustomers, makeWorld, must, once } from '../helpers/world.ts';
import { blocksOf, readPages } from './helpers/pages.ts';

const FILE = 'invoice.py';
const MONTH = '2026-09';
const folder = process.env.TEST_FOLDER ?? '';
const world = await makeWorld(['verify']);
const { redis } = world;
const page = readPages().find(({ path }) => path === 'docs/usage-and-statements.md')!;
assert.ok(page.text.includes(`Save it as \`${FILE}\``));
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, FILE), blocksOf(page).find(({ language }) => language === 'python')!.text);

test('each customer pays for what was used in a closed month, to the cent; an open month is refused by name', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  // It closes no month by itself.
  await world.sql`update workspaces set month_due_at = 9000000000000000 where id = ${workspace.id}`;
  const customers = makeCustomers(world, workspace.id);
  for (const [externalMeterId, usage] of [
    ['acme', '12.345678'],
    ['umbrella', '100.000001'],
  ] as const) {
    await customers.newMeter({ externalMeterId, totalCredits: '1000' });
    const { key } = await customers.newKey({ externalMeterId });
    assert.is((await customers.verify({ key, billing: { usage } })).body.status, 'VALID');
  }
  await backdate(redis, Date.parse(`${MONTH}-20T10:00Z`));
  await backdateRows(world.sql, workspace.id, Date.parse(`${MONTH}-05T00:00Z`));
  const adjustment = `/api/v1/customer-billing/${(await customers.billing('acme')).id}/adjustment`;
  const correction = { amount: '-0.25', reason: 'counted twice', day: `${MONTH}-21` };
  await must(201, world.call('post', adjustment, correction, { headers: once() }));
  const open = await invoice(workspace.id).catch((error: { stderr: string }) => error.stderr);
  assert.match(open, /AssertionError: still open: acme, umbrella$/m);

  await world.start('consumer');
  await eventually('the month is closed', async () => {
    const path = `/api/v1/workspace/${workspace.id}/close`;
    const closing = world.call('post', path, { month: MONTH }, { headers: once() });
    return (await must(200, closing)).body.closing.status === 'CLOSED';
  });
  const lines = (await invoice(workspace.id)).trim().split('\n');
  const prices = ['externalMeterId credits price', 'acme 12.095678 0.24', 'umbrella 100.000001 2.00'];
  const found = lines.map((line) => line.trim().replace(/\s+/g, ' '));
  assert.equal(found, prices);
});

async function invoice(workspaceId: string): Promise<string> {
  const { PATH, PYTHONPATH, TEST_PYTHON = '' } = process.env;
  const env = { PATH, PYTHONPATH, KEYTALLY_API_URL: world.api.url, KEYTALLY_TOKEN: world.team.token };
  const { stdout } = await promisify(execFile)(TEST_PYTHON, [FILE, workspaceId, MONTH, '0.02'], { cwd: folder, env });
  return stdout;
}
