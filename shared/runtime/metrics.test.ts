import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeMetrics } from './metrics.ts';

test('every observation is in the next scrape, and counts once', async () => {
  const { httpSeconds, registry } = makeMetrics('test');
  const counts = async () => {
    const text = await registry.metrics();
    const count = (status: number, what: string) =>
      Number(new RegExp(`seconds_${what}.*status="${status}".* (\\S+)$`, 'm').exec(text)?.[1]);
    return [200, 503].flatMap((status) => [count(status, 'count'), count(status, 'bucket\\{le="0.0025"')]);
  };
  const observe = (times: number, status: number, seconds: number) => {
    for (let i = 0; i < times; i++) httpSeconds.observe({ method: 'POST', route: '/', status }, seconds);
  };

  observe(1, 200, 0.002);
  observe(1, 503, 0.2);
  assert.equal(await counts(), [1, 1, 1, 0]);
  observe(700, 200, 0.002);
  observe(300, 503, 0.2);
  assert.equal(await counts(), [701, 701, 301, 0]);
  assert.equal(await counts(), [701, 701, 301, 0], 'a scrape removes nothing');
});
