// The Go client's own tests, on a real keytally. clients/go/README.md says how to run them by hand.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld } from '../../tests/helpers/world.ts';
import { gofmt, raceFlag, runGo } from './helpers/go.ts';

const world = await makeWorld(['verify', 'consumer']);

test('gofmt and go vet find nothing', async () => {
  const { stdout } = await promisify(execFile)(await gofmt(), ['-l', import.meta.dirname]);
  assert.is(stdout, '');
  await runGo(['vet', ...(await raceFlag()), './...']);
});

test('its tests pass on a real stack, and find no data race where cgo is there', async () => {
  const env = {
    KEYTALLY_API_URL: world.api.url,
    KEYTALLY_VERIFY_URL: world.verify!.url,
    KEYTALLY_TOKEN: world.team.token,
  };
  // `go test` runs the most useful part of vet by itself; the rest reads what is compiled already.
  const output = await runGo(['test', '-count=1', '-v', ...(await raceFlag()), './...'], env);
  process.stdout.write(output);
  const passed = output.match(/^--- PASS/gm)?.length ?? 0;
  assert.ok(passed >= 20, `${passed} tests passed`);
  assert.not.match(output, /^--- (?:SKIP|FAIL)/m);
});
