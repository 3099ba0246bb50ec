import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { measureImport } from './measure.ts';

// What `make bench-import` does with 1,000,000 keys is exact here, with few.
test('keys of three foreign forms verify after their import, and a second import changes nothing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'keytally-bench-import-'));
  try {
    const { files, wrong } = await measureImport({ keys: 1_000, atOnce: 4, folder, say: () => {} });
    assert.equal(wrong, []);
    assert.equal(
      files.map(({ name, keys }) => [name, keys]),
      [
        ['unkey.csv', 333],
        ['kong.json', 333],
        ['litellm.csv', 334],
      ],
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});
