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
const disk = await mountDisk(folder, 112);
const PIECE = PART_BYTES / 8;
const write = (log: number, text: string, pieces: number) => {
  for (let i = 0; i < pieces; i++) writeSync(log, Buffer.alloc(PIECE, text));
};
const findNoSpace = async () =>
  assert.match(String(await shortenLog(file).catch((error: NodeJS.ErrnoException) => error.code)), 'ENOSPC');
test.after(() => unmountBelow(process.env.TEST_FOLDER ?? ''));

test('a program goes on writing to a log that is cut into parts, of which the oldest are removed; on a full disk it stays', async () => {
  const log = openLog(file);
  for (const part of '123456') {
    write(log, part, 9);
    assert.equal([await shortenLog(file), await shortenLog(file)], [true, false]);
    assert.equal(readFileSync(`${file}.1`), Buffer.alloc(PIECE * 9, part));
  }
  assert.equal(
    [4, 3, 2, 1].map((number) => String.fromCharCode(readFileSync(`${file}.${number}`)[0]!)),
    ['3', '4', '5', '6'],
  );
  assert.not.ok(existsSync(`${file}.5`));

  write(log, '7', 9);
  await disk.fill();
  const before = readdirSync(folder);
  for (let i = 0; i < 3; i++) await findNoSpace();
  assert.equal([readdirSync(folder), statSync(file).size], [before, PIECE * 9]);
  disk.free();
  assert.is(await shortenLog(file), true);
  assert.equal(readFileSync(`${file}.1`), Buffer.alloc(PIECE * 9, '7'));
});

test('on a disk too full for the rest of a log, tries to cut it take no space, and no older parts', async () => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  write(openLog(file), '7', 24);
  for (const part of '1234') writeFileSync(`${file}.${part}`, part);
  // A part has space, and what is left behind it has none.
  const filler = join(folder, 'filler');
  writeFileSync(filler, Buffer.alloc((112 - 48 - 24) * 1024 * 1024));
  for (let i = 0; i < 3; i++) await findNoSpace();
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
  for (const [parts, left] of [
    [5, PART_BYTES * 5],
    [6, 0],
  ] as const) {
    writeFileSync(file, '');
    truncateSync(file, PART_BYTES * parts);
    openLog(file);
    assert.is(statSync(file).size, left);
  }
  assert.is(statSync(`${file}.1`).size, PART_BYTES * 6);
});
