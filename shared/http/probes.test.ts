import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { systemClock } from '../runtime/clock.ts';
import { makeMetrics } from '../runtime/metrics.ts';
import { makeProbes } from './probes.ts';

test('a thousand who ask at once or one after the other within a second cost one rendering and one check', async () => {
  let checks = 0;
  let renderings = 0;
  const later = () => new Promise(setImmediate);
  const redis = async () => {
    checks++;
    await later();
  };
  const readMetrics = async () => {
    await later();
    return `rendered ${++renderings}`;
  };
  const probe = makeProbes(makeMetrics('test'), makeTestClock(), { redis }, { readMetrics });
  const paths = Array.from({ length: 1_000 }, (_, i) => (i % 2 ? '/metrics' : '/readyz'));
  const together = await Promise.all(paths.map((path) => probe(path)));
  for (const path of paths) await probe(path);
  assert.equal([renderings, checks], [1, 1]);
  assert.is(String(together[1]?.text), 'rendered 1');
});

test('a program that can still serve somebody says so, and names what is away', async () => {
  const away = async () => {
    throw new Error('away');
  };
  const here = async () => {};
  const answers = async (postgres: () => Promise<void>) => {
    const checks = { postgres, clickhouse: away };
    const probe = makeProbes(makeMetrics('test'), systemClock, checks, { toServe: { postgres } });
    const asked = await Promise.all(['/readyz', '/servingz'].map((path) => probe(path)));
    return asked.map((answer) => `${answer?.status} ${String(answer?.text)}`);
  };
  assert.equal(await answers(here), [
    '503 {"status":"not ready","checks":{"postgres":"ok","clickhouse":"away"}}',
    '200 {"status":"serving","checks":{"postgres":"ok"}}',
  ]);
  assert.equal(await answers(away), [
    '503 {"status":"not ready","checks":{"postgres":"away","clickhouse":"away"}}',
    '503 {"status":"not serving","checks":{"postgres":"away"}}',
  ]);
});

test('what could not be rendered is not kept', async () => {
  let tries = 0;
  const readMetrics = async () => {
    if (++tries === 1) throw new Error('the primary ends');
    return 'rendered';
  };
  const probe = makeProbes(makeMetrics('test'), systemClock, {}, { readMetrics });
  await rejects(async () => probe('/metrics'), /the primary ends/);
  assert.is(String((await probe('/metrics'))?.text), 'rendered');
});
