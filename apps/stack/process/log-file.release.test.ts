import { existsSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs';
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
  const found = [4, 3, 2, 1].map((number) => String.fromCharCode(readFileSync(`${file}.${number}`)[0]!));
  assert.equal(found, ['3', '4', '5', '6']);
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
