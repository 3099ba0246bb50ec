import {
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { mountDisk, unmountBelow } from '../../../tests/helpers/disk.ts';
import { openLog, PART_BYTES, shortenLog } from './log-file.ts';

// A file system that can only empty a file, not remove its head.
const folder = join(process.env.TEST_FOLDER ?? '', 'small');
const file = join(folder, 'log');
const piece = (text: string) => Buffer.alloc(PART_BYTES / 8, text);
const disk = await mountDisk(folder, 112);
test.after(() => unmountBelow(process.env.TEST_FOLDER ?? ''));

test('on any file system a program goes on writing to a log that is cut into parts, and the oldest are removed', async () => {
  const log = openLog(file);
  for (const part of '123456') {
    for (let i = 0; i < 9; i++) writeSync(log, piece(part));
    assert.is(await shortenLog(file), true);
    assert.is(await shortenLog(file), false);
    assert.equal(read(`${file}.1`), Buffer.alloc((PART_BYTES / 8) * 9, part));
  }
  writeSync(log, 'more');
  assert.is(readFileSync(file, 'utf8'), 'more');
  assert.equal(
    [4, 3, 2, 1].map((number) => String.fromCharCode(read(`${file}.${number}`)[0]!)),
    ['3', '4', '5', '6'],
  );
  assert.not.ok(existsSync(`${file}.5`));
});

test('on a full disk a log stays as it is, with its parts, until there is space', async () => {
  const log = openLog(file);
  for (let i = 0; i < 9; i++) writeSync(log, piece('7'));
  await disk.fill();
  const before = readdirSync(folder);
  const { size } = statSync(file);
  await findNoSpace();
  assert.equal(readdirSync(folder), before);
  assert.is(statSync(file).size, size);
  disk.free();
  assert.is(await shortenLog(file), true);
  assert.is(read(`${file}.1`).at(-1), '7'.charCodeAt(0));
});

test('on a disk too full for the rest of a log, tries to cut it take no space, and no older parts', async () => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  const log = openLog(file);
  for (let i = 0; i < 24; i++) writeSync(log, piece('7'));
  for (const part of '1234') writeFileSync(`${file}.${part}`, part);
  // A part has space, and what is left behind it has none.
  const filler = join(folder, 'filler');
  writeFileSync(filler, Buffer.alloc((112 - 48 - 24) * 1024 * 1024));
  await findNoSpace();
  assert.is(statSync(file).size, PART_BYTES * 3);
  assert.equal(readdirSync(folder).toSorted(), ['filler', 'log', 'log.2', 'log.3', 'log.4']);
  rmSync(filler);
  assert.is(await shortenLog(file), true);
  assert.is(statSync(`${file}.1`).size, PART_BYTES * 3);
  assert.equal(
    [2, 3, 4].map((number) => readFileSync(`${file}.${number}`, 'utf8')),
    ['1', '2', '3'],
  );
});

test('a log that has outgrown all its parts becomes one when its program starts', () => {
  truncateSync(file, PART_BYTES * 5);
  openLog(file);
  assert.is(statSync(file).size, PART_BYTES * 5);
  truncateSync(file, PART_BYTES * 6);
  openLog(file);
  assert.equal([statSync(file).size, statSync(`${file}.1`).size], [0, PART_BYTES * 6]);
  assert.is(statSync(`${file}.2`).size, PART_BYTES * 3);
});

test.run();

/** Tries to shorten the log, more than once. */
async function findNoSpace(): Promise<void> {
  for (let i = 0; i < 3; i++) {
    try {
      await shortenLog(file);
      assert.unreachable();
    } catch (error) {
      assert.is((error as NodeJS.ErrnoException).code, 'ENOSPC');
    }
  }
}

function read(path: string): Buffer {
  return readFileSync(path);
}
