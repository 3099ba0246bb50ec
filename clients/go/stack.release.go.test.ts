// The Go client's own tests, on a real keytally. clients/go/README.md says how to run them by hand.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers } from '../../tests/helpers/customers.ts';
import { makeWorld } from '../../tests/helpers/world.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { assertProtected, whileServed } from '../helpers/protected.ts';
import { gofmt, module, raceFlag, runGo } from './helpers/go.ts';

const world = await makeWorld(['verify', 'consumer']);

test('its files are as gofmt writes them', async () => {
  const { stdout } = await promisify(execFile)(await gofmt(), ['-l', import.meta.dirname]);
  assert.is(stdout, '');
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

test('go vet finds nothing', async () => {
  await runGo(['vet', ...(await raceFlag()), './...']);
});

test('the program of the page protects an API as it stands, in a module of its own', async () => {
  const page = readFileSync(join(checkout, 'docs/protect-go.md'), 'utf8');
  const [, program = ''] = /^```go\n(package main\n[^]*?)^```$/m.exec(page) ?? [];
  const [, edit = ''] = /^go mod edit (.*)$/m.exec(page) ?? [];
  const folder = join(process.env.TEST_FOLDER ?? '', 'my-go-api');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'main.go'), program);
  await runGo(['mod', 'init', 'example.com/my-go-api'], {}, folder);
  const flags = edit.replaceAll('"', '').replace('$KEYTALLY/clients/go', module).split(' ');
  await runGo(['mod', 'edit', ...flags], {}, folder);
  // With the race detector all that it needs is compiled already.
  await runGo(['build', ...(await raceFlag()), '-o', 'my-go-api', '.'], {}, folder);

  const [port = 0] = await freePorts(1);
  const env = { KEYTALLY_VERIFY_URL: world.verify!.url, KEYTALLY_TOKEN: world.team.token, PORT: String(port) };
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  await whileServed({ command: [join(folder, 'my-go-api')], env }, () =>
    assertProtected(makeCustomers(world, workspace.id), `http://127.0.0.1:${port}/`),
  );
});
