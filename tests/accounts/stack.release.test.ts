import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { spawnWorld, type ProcessWorld } from '../helpers/world.ts';
import { compareStack } from './compare-stack.ts';

// A short form of what `make accounts-model` does to a whole stack.

const RECORDS = 12;

const test = suite('accounts of a whole stack');
let world: ProcessWorld;
test.before(async () => void (world = await spawnWorld(['verify', 'consumer'])));
test.after(() => world?.stop());

test('whatever is done to it, a record has used what its client was told, and its grants and books prove all amounts', async () => {
  assert.is((await compareStack(world, { sequences: RECORDS })).failure, undefined);
});

test.run();
