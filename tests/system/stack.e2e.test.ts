// One machine from `make up` to its second start, by the commands as an operator gives them.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { processNames } from '../../apps/stack/servers/programs.ts';
import { eventually } from '../helpers/eventually.ts';
import type { TestKey } from '../helpers/customers.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';

let key: TestKey;

const stack = await makeOwnStack(process.env.TEST_FOLDER ?? '');

test('make up starts everything, and what it prints makes a first key that is VALID', async () => {
  const { out } = await stack.begin();
  assert.equal(Object.keys(stack.processes()).toSorted(), processNames('redis').toSorted());
  const [lines = ''] = /^\. .*\/env; [^]*/m.exec(out) ?? [];
  const [decision = ''] = await stack.paste(lines.split('\n'));
  assert.match(decision, /^\{"status":"VALID"/);
  const [, pages = ''] = /^ {2}console {2}(\S+)#\S+ \(once, for 10 minutes\)$/m.exec(out) ?? [];
  assert.match(await (await fetch(pages)).text(), /<title>keytally<\/title>/);
  const { port } = stack.processes()['verify']!;
  assert.match(
    await (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
    /^keytally_redis_memory_limit_bytes\{.*\} \d{8}/m,
  );
});

test('what a metered key uses is in its balance, in its usage and in the proof of the books', async () => {
  key = await stack.makeKey();
  await stack.verifyTimes(key, 20);
  await eventually('it is booked', async () => (await stack.usageOf(key)) === '20');
  assert.is(await stack.usedOf(key), '20');
  assert.match((await stack.must('reconcile')).out, /^1 exact, 0 differ/m);
});

test('after make down nothing runs, and the next make up goes on with the same keys, balances and books', async () => {
  await stack.must('down');
  assert.equal(stack.processes(), {});
  await stack.must('up');
  assert.equal([await stack.usedOf(key), await stack.usageOf(key)], ['20', '20']);
  await stack.verifyTimes(key, 1);
  await eventually('it is booked', async () => (await stack.usageOf(key)) === '21');
  assert.match((await stack.must('reconcile')).out, /^1 exact, 0 differ/m);
});
