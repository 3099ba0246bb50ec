import { readdirSync, readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { callScript, makeLibrary, scripts, scriptText, useLibrary, type ScriptName } from './scripts.ts';

const folder = new URL('lua/', import.meta.url);
const filesIn = (path: string) => readdirSync(new URL(path, folder)).filter((file) => file.endsWith('.lua'));
const read = (path: string) => readFileSync(new URL(path, folder), 'utf8');
const usesOf = (script: string) => [...script.matchAll(/^-- uses: (.+)$/gm)].flatMap(([, uses]) => uses!.split(' '));
const names = Object.keys(scripts) as ScriptName[];
const parts = filesIn('parts/').map((file) => file.replace('.lua', ''));
const redis = new Redis(process.env.TEST_REDIS_URL!);
test.after(() => redis.disconnect());

test('every script is in the table and every part in use, and none is missing', () => {
  assert.equal(filesIn('.').toSorted(), names.map((name) => `${name}.lua`).toSorted());
  const used = new Set(names.flatMap((name) => usesOf(read(`${name}.lua`))));
  assert.equal([...used].toSorted(), parts.toSorted());
});

test('Redis gets the scripts by the first call that it lacks one of, and again once they are gone', async () => {
  // A library of its own: other test files use the product's.
  const library = makeLibrary((name) => `local by = 'this test'\n${scriptText(name)}`);
  const libraryName = library.functionOf('verify').replace(/_verify$/, '');
  useLibrary(redis, library);
  const keys = Array.from({ length: 4 }, (_, i) => `{07}:none${i}`);
  for (const when of ['at first', 'once they are gone']) {
    for (const name of names) {
      // Some want more than this, but none is missing or fails to compile.
      const answer = await callScript(redis, name, keys, ['nobody', 0, '1', '{}']).catch(String);
      assert.not.match(String(answer), /compil|not found|nonexistent global/i, `${name} ${when}`);
    }
    assert.is(await redis.function('DELETE', libraryName), 'OK', when);
  }
});

// A part that is not named would be missed only when a line that needs it is reached.
test('a script uses no name but its own, those of its parts, and those of Lua and Redis', () => {
  for (const name of names) {
    const code = scriptText(name)
      .replace(/--.*/g, '')
      .replace(/'(?:\\.|[^'\\])*'/g, "''");
    const defined = [
      ...[...code.matchAll(/\blocal\s+(?!function)((?:\w+,\s*)*\w+)/g)].map(([, list]) => list),
      ...[...code.matchAll(/\bfor\s+((?:\w+,\s*)*\w+)/g)].map(([, list]) => list),
      ...[...code.matchAll(/\bfunction\s+(\w+)\(/g)].map(([, list]) => list),
      ...[...code.matchAll(/\bfunction(?:\s+\w+)?\(([^)]*)\)/g)].map(([, list]) => list),
      // Fields of a table.
      ...[...code.matchAll(/(?<=[{,]\s*)(\w+)(?= = )/g)].map(([, name]) => name),
    ];
    const known = new Set([...ofLua, ...defined.flatMap((list) => list!.split(/,\s*/))]);
    const used = [...code.matchAll(/(?<![.\w])[A-Za-z_]\w*/g)].map(([word]) => word);
    assert.equal([...new Set(used.filter((word) => !known.has(word)))], [], `${name}.lua`);
  }
});

const ofLua = [
  ...'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
  ...'redis cjson cmsgpack struct bit string table math KEYS ARGV ipairs pairs unpack pcall error type tostring tonumber'.split(
    ' ',
  ),
];
