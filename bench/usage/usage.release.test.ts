import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { measureUsage } from './measure.ts';

// What `make bench-usage` does with 20,000,000 events is exact here, with few.
test('a filled workspace answers each question, and exports all of its usage, with the sums of its events', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'keytally-bench-usage-'));
  try {
    const measured = await measureUsage({
      events: 60_000,
      records: 100,
      days: 90,
      tries: 1,
      folder,
      say: () => {},
      told: () => {},
    });
    assert.equal(measured.wrong, []);
    assert.ok(measured.asked.every(({ rows }) => rows > 0));
    assert.equal(
      measured.exported.map(({ format, rows }) => [format, rows > 50_000]),
      [
        ['csv', true],
        ['parquet', true],
      ],
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});
