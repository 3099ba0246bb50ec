import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { checkout } from '../../apps/stack/process/home.ts';
import { keyShard, makeKeyText, SHARDS } from '../../shared/values/key-text.ts';
import { readText } from '../helpers/read-text.ts';

const folder = 'deploy/secret-scanning';
// Rules by their ids. Go and JavaScript read these patterns alike.
const rules = new Map(
  [...readText(`${folder}/gitleaks.toml`).matchAll(/^id = "(.+)"$[^]*?^regex = '''(.+)'''$/gm)].map(
    ([, id = '', regex = '']) => [id, new RegExp(regex)],
  ),
);
const prefixes: Record<string, string[]> = {
  'keytally-access-token': ['kt'],
  'keytally-link-token': ['lt'],
  'keytally-api-key': ['key', 'live_key', 'apikey', 'a_b2_key'],
  'keytally-any-prefix': ['acme', 'sk_live', 'key', 'kt', 'A', 'a'.repeat(32)],
};
const wrong = [
  'key_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJ', // too short
  'key_64aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1', // no such shard
  'key_7aaT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1', // a letter in the shard
  'key_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1aa', // too long
  'key_17aT9cXv3LkQ0eRz8mWn-bUy2dHs6gJpQ1', // a sign
  '_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1', // no prefix
  'ghp_16C7e42F292c6912E7710c838347Ae178B4a',
];

test('each rule finds every secret of its kind, in source, logs and JSON', () => {
  assert.equal([...rules.keys()].toSorted(), Object.keys(prefixes).toSorted());
  for (const [id, rule] of rules) {
    for (const prefix of prefixes[id]!) {
      for (let shard = 0; shard < SHARDS; shard++) {
        const secret = makeKeyText(prefix, shard);
        for (const text of [secret, `KEY="${secret}"`, `?key=${secret}&a=b`, `Bearer ${secret}\n`, `{"k":"${secret}"}`])
          assert.is(rule.exec(text)?.[1], secret, `${id} in ${text}`);
      }
    }
  }
});

test('no rule finds what has another form', () => {
  for (const [id, rule] of rules) for (const text of wrong) assert.not.ok(rule.test(text), `${id} finds ${text}`);
});

test('what a rule finds is a secret exactly if the checksum is right, which check.mjs says as the service does', () => {
  const secrets = Object.values(prefixes)
    .flat()
    .map((prefix, i) => makeKeyText(prefix, i));
  const mistyped = secrets.map((secret) => `${secret.slice(0, -1)}${secret.endsWith('0') ? '1' : '0'}`);
  assert.ok(secrets.every((secret) => keyShard(secret) !== undefined));
  assert.ok(mistyped.every((secret) => keyShard(secret) === undefined));
  const input = [...wrong, ...secrets, ...mistyped, ''].join('\n');
  const check = join(checkout, folder, 'check.mjs');
  const { stdout, stderr } = spawnSync(process.execPath, [check], { input, encoding: 'utf8' });
  assert.equal([stdout, stderr], [`${secrets.join('\n')}\n`, '']);
});

test('the detectors of trufflehog and the page have the patterns of the rules', () => {
  const { detectors } = parse(readText(`${folder}/trufflehog.yaml`)) as {
    detectors: { regex: Record<string, string> }[];
  };
  const patterns = [...rules.values()].map(({ source }) => source);
  for (const { regex } of detectors)
    for (const pattern of Object.values(regex)) assert.ok(patterns.includes(pattern), pattern);
  const page = readText('docs/secret-scanning.md').replaceAll('\\|', '|');
  for (const kind of ['key', 'kt', 'lt'])
    assert.ok(page.includes(`${kind}_(?:[0-5][0-9]|6[0-3])[0-9A-Za-z]{32}`), kind);
});
