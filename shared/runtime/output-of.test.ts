import { randomBytes } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ConfigError, readConfig } from './config.ts';
import { outputOf } from './output-of.ts';
import { groups } from './variables.ts';

const KEY = randomBytes(32).toString('base64');
const before = { ...process.env };
test.after.each(() => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
  Object.assign(process.env, before);
});

test('a command gives the master key and the one before it', () => {
  const other = randomBytes(32).toString('base64');
  process.env.MASTER_KEY_COMMAND = `printf '%s\\n' '${KEY}'`;
  process.env.MASTER_KEY_PREVIOUS_COMMAND = `echo ${other} | cat`;
  const { MASTER_KEY, MASTER_KEY_PREVIOUS } = readConfig(groups.masterKeys);
  assert.equal([MASTER_KEY.toString('base64'), MASTER_KEY_PREVIOUS?.toString('base64')], [KEY, other]);
});

test('a variable that holds no key is never taken from a command', () => {
  delete process.env.LOG_LEVEL;
  process.env.LOG_LEVEL_COMMAND = 'echo debug';
  assert.is(readConfig({ LOG_LEVEL: groups.single.LOG_LEVEL }).LOG_LEVEL, 'info');
});

test('a master key that is given twice is refused', () => {
  process.env.MASTER_KEY_COMMAND = `echo ${KEY}`;
  for (const name of ['MASTER_KEY', 'MASTER_KEY_FILE']) {
    process.env[name] = KEY;
    const twice = /^ {2}MASTER_KEY is given twice: set one of MASTER_KEY, MASTER_KEY_FILE and MASTER_KEY_CO/m;
    assert.match(problem(), twice);
    delete process.env[name];
  }
  // As Compose and Helm hand on what is not set.
  process.env.MASTER_KEY = '';
  assert.is(readConfig(groups.masterKeys).MASTER_KEY.length, 32);
});

test('a command that fails, prints nothing or prints no key is named, and what it printed is not', () => {
  for (const [command, message] of [
    [`echo ${KEY}; exit 3`, /could not be had: MASTER_KEY_COMMAND failed with exit code 3 \(/],
    [`echo ${KEY}; echo no such key >&2; exit 1`, /MASTER_KEY_COMMAND failed with exit code 1: no such key/],
    [`echo the key ${KEY} is bad >&2; exit 1`, /exit code 1: the key \[hidden\] is bad/],
    ['kill -9 $$', /MASTER_KEY_COMMAND was ended by SIGKILL/],
    ['true', /MASTER_KEY_COMMAND printed nothing/],
    [`echo ${KEY.slice(0, 24)}`, /MASTER_KEY must be 32 bytes in base64/],
    ['keytally-has-no-such-command', /exit code 127: .*not found/],
    ['head -c 100000 /dev/zero', /printed more than 65536 bytes/],
  ] as const) {
    process.env.MASTER_KEY_COMMAND = command;
    const said = problem();
    assert.match(said, message);
    assert.not.ok(said.includes(KEY), command);
  }
});

test('a command that does not end is ended', () => {
  assert.throws(() => outputOf('exec sleep 60', 'X_COMMAND', 100), /X_COMMAND did not end within 0\.1 s/);
});

function problem(): string {
  try {
    readConfig(groups.masterKeys);
  } catch (error) {
    assert.instance(error, ConfigError);
    return (error as Error).message;
  }
  throw new Error('the configuration was taken');
}
