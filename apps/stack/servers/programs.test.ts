import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openHome } from '../process/home.ts';
import { notTaken, ourPrograms, programEnvironment } from './programs.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'programs');
const addresses = { DATABASE_URL: 'postgres://here', REDIS_URL: 'redis://here', CLICKHOUSE_URL: 'http://here' };
const decided = {
  DATABASE_URL: 'postgres://elsewhere',
  MASTER_KEY_COMMAND: 'fetch it',
  HOST: '0.0.0.0',
  OPS_PORT: '9000',
  CONSUMER_NAME: 'mine',
  KAFKA_SASL_PASSWORD_FILE: '/run/secrets/kafka',
};
const taken = {
  PUBLIC_API_URL: 'https://api.example.com',
  PUBLIC_VERIFY_URL: 'https://verify.example.com',
  MASTER_KEY_PREVIOUS_FILE: '/old/master.key',
  KAFKA_TOPIC_PARTITIONS: '24',
  OUTBOX_MAX_ENTRIES: '1000',
};

test.before.each(() => void mkdirSync(folder, { recursive: true }));
test.after.each(() => {
  for (const name of [...Object.keys({ ...decided, ...taken }), 'PUBLIC_API_URL_FILE']) delete process.env[name];
});

test('programs of a stack get what the environment says, but for what the stack decides itself', () => {
  Object.assign(process.env, decided, taken);
  const env = programEnvironment(openHome({ KEYTALLY_HOME: folder }), addresses);
  for (const [name, value] of Object.entries(taken)) assert.is(env[name], value, name);
  assert.is(env.DATABASE_URL, addresses.DATABASE_URL);
  assert.is(env.HOST, '127.0.0.1');
  assert.is(env.CONSUMER_NAME, 'consumer-1');
  assert.is(env.MASTER_KEY_FILE, join(folder, 'master.key'));
  for (const name of ['MASTER_KEY_COMMAND', 'OPS_PORT', 'KAFKA_SASL_PASSWORD_FILE'])
    assert.is(env[name], undefined, name);
});

test('a stack that could not be asked whether it is ready is refused', () => {
  for (const [name, value] of Object.entries({ KEYTALLY_ADDRESS: '10.0.0.5', TLS_CERTIFICATE_PATH: '/tls.crt' })) {
    process.env[name] = value;
    const begin = () => ourPrograms(openHome({ KEYTALLY_HOME: folder }), {} as never, {});
    assert.throws(begin, name === 'KEYTALLY_ADDRESS' ? /not 10\.0\.0\.5/ : /put a proxy with TLS before it/);
    delete process.env[name];
  }
});

test('without public URLs a stack names its own addresses', () => {
  const home = openHome({ KEYTALLY_HOME: folder, KEYTALLY_PORT: '9480' });
  const { PUBLIC_API_URL, PUBLIC_VERIFY_URL } = programEnvironment(home, addresses);
  assert.equal([PUBLIC_API_URL, PUBLIC_VERIFY_URL], ['http://127.0.0.1:9480', 'http://127.0.0.1:9481']);
  process.env.PUBLIC_API_URL_FILE = '/run/public-url';
  const { PUBLIC_API_URL: own, PUBLIC_API_URL_FILE } = programEnvironment(home, addresses);
  assert.equal([own, PUBLIC_API_URL_FILE], [undefined, '/run/public-url'], 'nor of one whose file is named');
});

test('what a stack does not take is named, and nothing else', () => {
  assert.equal(notTaken({ ...decided, ...taken, PATH: '/bin', MASTER_KEY: '' }), Object.keys(decided));
});
