import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { joinWorld, makeWorld } from '../../../../tests/helpers/world.ts';

const folder = process.env.TEST_FOLDER!;
const file = join(folder, 'clock');
mkdirSync(folder, { recursive: true });
writeFileSync(file, Buffer.alloc(8));
const world = await makeWorld(['api'], { TEST_CLOCK_FILE: file });
const secondsAhead = () => Number(readFileSync(file).readBigInt64LE());

// It is in no document, which other requests of tests are compared with.
async function move({ api, team }: Pick<typeof world, 'api' | 'team'>, body: object) {
  const headers = { Authorization: `Bearer ${team.token}`, 'Content-Type': 'application/json' };
  const answer = await fetch(`${api.url}/api/v1/test-clock`, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: answer.status, body: (await answer.json()) as { error?: { code: number } } };
}

test('the clock of a stack to test against goes on by what a program preloads, and never back', async () => {
  for (const days of [1, 40]) {
    const before = secondsAhead();
    const beganMs = Date.now();
    const wantedMs = beganMs + days * 86_400_000;
    assert.is((await move(world, { now: new Date(wantedMs).toISOString() })).status, 200);
    const moved = secondsAhead() - before;
    const least = Math.ceil((wantedMs - Date.now()) / 1000);
    assert.ok(moved >= least && moved <= days * 86_400, `${moved}`);
  }
  const ahead = secondsAhead();
  for (const now of ['2020-01-01T00:00:00.000Z', '2060-01-01T00:00:00.000Z', 'tomorrow'])
    assert.is((await move(world, { now })).body.error?.code, 40001, now);
  assert.is(secondsAhead(), ahead);
});

test('no other stack has the operation', async () => {
  const other = await joinWorld();
  assert.is((await move(other, { now: '2050-01-01T00:00:00.000Z' })).status, 404);
});
