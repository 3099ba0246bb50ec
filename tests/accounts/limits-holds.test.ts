import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import type { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import { slidingWindows } from '../../shared/stores/limits.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { readLimits } from '../../shared/verification/limits.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { CalendarCounter, SlidingCounter } from './limits.ts';
import { byClock, setMicros, SHARD } from './test-shard.ts';

// What holds take from limits, and what their captures correct, on a real Redis, against the model of limits.ts.

const BASE_MICROS = 1_735_689_600_000_000n;
const names = ['{07}:l:key', '{07}:l:record'];

const test = suite('holds and limits');
let redis: ShardedRedis;
let client: Redis;
let sha: string;
test.before(async () => {
  redis = await connectTestRedis();
  ({ client } = redis.node(SHARD));
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
  const parts = ['names', 'time', 'limits', 'limits-of-holds'].map((part) =>
    read(`../../shared/stores/lua/parts/${part}.lua`),
  );
  const text = [...parts, read('lua/limits.lua')];
  sha = (await client.script('LOAD', byClock(text.join('\n')))) as string;
});
test.after(() => redis?.close());

type Command = { after: bigint; hold: number; capture: number; part: number };
type Hold = { noted: string; micros: number; units: bigint; ms: number };

test('a capture corrects what its hold took from each limit on credits as the model does', async () => {
  const command = fc.record({
    after: fc.bigInt(0n, 40_000n).map((hundreds) => hundreds * 100_000n),
    hold: fc.integer({ min: 1, max: 900_000 }),
    // Of the holds so far, the one that is captured then, and by how much of what it held.
    capture: fc.nat(3),
    part: fc.constantFrom(0, 0.5, 1, 1.5),
  });
  const per = fc.constantFrom('second', 'minute', 'hour', 'day', 'month');
  const run = async (per: Limit['per'], micros: number, commands: Command[]) => {
    await client.del(names);
    const limit: Limit = { name: 'x', unit: 'credits', limit: (micros / 1e6).toFixed(6), per };
    const slides = per === 'second' || per === 'minute' || per === 'hour';
    const sliding = slides ? new SlidingCounter(BigInt(micros), BigInt(slidingWindows[per].units)) : undefined;
    const calendar = slides ? undefined : new CalendarCounter(BigInt(micros), per, 'UTC');
    const holds: Hold[] = [];
    let now = 1_900_000_800_000_000n;
    const units = () => (now - BASE_MICROS) / (per === 'hour' ? 100n : 1n);
    for (const { after, hold, capture, part } of commands) {
      now += after;
      await setMicros(client, now);
      const ms = Number(now / 1_000n);
      const { rateField, packedFor } = readLimits(`@k[]\x1d${JSON.stringify([limit])}`, ms);
      const ask = (...args: (string | number)[]) => client.evalsha(sha, 2, ...names, ...args) as Promise<string[]>;
      const [status, noted, told = ''] = await ask('hold', rateField, packedFor('default'), hold);
      const passes = sliding ? sliding.take(BigInt(hold), units()) : calendar!.take(BigInt(hold), ms);
      assert.is(status, passes ? 'VALID' : 'REFUSED');
      const left = sliding ? sliding.remaining(units()) : calendar!.remaining(ms);
      const level = BigInt(told.split('\x1e').at(-1)!);
      assert.is(level < micros ? BigInt(micros) - level : 0n, left);
      if (passes) holds.push({ noted: noted!, micros: hold, units: units(), ms });
      const [captured] = holds.splice(capture, 1);
      if (!captured) continue;
      const used = Math.floor(captured.micros * part);
      await ask('correct', captured.noted, captured.micros, used);
      const [held, by] = [BigInt(captured.micros), BigInt(used)];
      if (sliding) sliding.correct(held, by, captured.units, units());
      else calendar!.correct(held, by, captured.ms, ms);
    }
  };
  const commands = fc.array(command, { minLength: 1, maxLength: 30 });
  const result = await fc.check(fc.asyncProperty(per, fc.integer({ min: 1, max: 2_000_000 }), commands, run), {
    numRuns: Number(process.env.LIMITS_SEQUENCES ?? 150),
  });
  assert.not(result.failed, fc.defaultReportMessage(result) ?? '');
});

test.run();
