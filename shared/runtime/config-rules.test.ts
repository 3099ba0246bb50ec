import { randomBytes } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readConfig } from './config.ts';
import { configProblems } from './config-rules.ts';
import { programs } from './programs.ts';

const good = {
  NODE_ENV: 'production',
  HOST: '0.0.0.0',
  TLS_CERTIFICATE_PATH: '/tls/cert.pem',
  TLS_KEY_PATH: '/tls/key.pem',
  TLS_BY_PROXY: false,
  DATABASE_URL: 'postgres://keytally_api:b1c2d3e4f5a6b7c8@db:5432/keytally',
  REDIS_URL: 'rediss+cluster://api:9f8e7d6c5b4a3210@a:6379,b:6379',
  CLICKHOUSE_URL: 'https://api:0a1b2c3d4e5f6a7b@books:8443/keytally',
  KAFKA_SASL_PASSWORD: '',
  MASTER_KEY: randomBytes(32),
};

const plain = { ...good, TLS_CERTIFICATE_PATH: '', TLS_KEY_PATH: '' };
const outside = /^HOST .* can be reached from outside/;

test('settings are safe in production, or refused by what is wrong with them', () => {
  const cases: [changed: object, problem?: RegExp][] = [
    [good],
    [{ ...plain, TLS_BY_PROXY: true }],
    ...['127.0.0.1', '127.1.2.3', '::1', 'localhost'].map((HOST): [object] => [{ ...plain, HOST }]),
    ...['0.0.0.0', '::', '10.0.0.5', '2001:db8::1', 'api.example'].map((HOST): [object, RegExp] => [
      { ...plain, HOST },
      outside,
    ]),
    [{ ...plain, NODE_ENV: '' }],
    [{ ...good, TLS_KEY_PATH: '' }, /must be set together/],
    [{ WORKERS: 2, PORT: 0 }, /set PORT to its number/],
    [{ WORKERS: 2, PORT: 8081 }],
    [{ WORKERS: 1, PORT: 0 }],
    [{ ...good, PORT: 8080, OPS_PORT: 9090 }],
    // Any two free ports.
    [{ ...good, PORT: 0, OPS_PORT: 0 }],
    [{ ...good, PORT: 8080, OPS_PORT: 8080 }, /^OPS_PORT must differ from PORT/],
    [{ ...good, PORT: 8080, OPS_PORT: 0, WORKERS: 2 }, /^WORKERS above 1 share one OPS_PORT/],
    [{ ...good, REDIS_URL: 'redis://redis:6379' }, /REDIS_URL .* not none/],
    [{ ...good, KAFKA_SASL_PASSWORD: 'kafka' }, /KAFKA_SASL_PASSWORD must not be/],
    [{ ...good, MASTER_KEY: Buffer.alloc(32, 7) }, /MASTER_KEY must be random/],
  ];
  for (const [settings, problem = /^$/] of cases)
    assert.match(configProblems(settings).join(), problem, JSON.stringify(settings));
  const env = { NODE_ENV: 'production', HOST: '0.0.0.0', REDIS_URL: 'redis://r:6379' };
  assert.throws(() => readConfig(programs.verify, env), /HOST 0\.0\.0\.0 can be reached from outside/);
});

test('missing, default, short and simple passwords are refused, and no message repeats one', () => {
  for (const password of ['', 'keytally', 'postgres', 'password123456', 'changeme', 'short1', 'aaaaaaaaaaaaaaaa'])
    for (const [name, url] of [
      ['DATABASE_URL', `postgres://api:${password}@db/keytally`],
      ['REDIS_URL', `redis://:${password}@redis:6379`],
      ['REDIS_URL', `redis+cluster://:${password}@a:1,b:2`],
      ['CLICKHOUSE_URL', `http://api:${password}@books:8123/keytally`],
    ] as const) {
      const [problem, ...more] = configProblems({ ...good, [name]: url });
      assert.equal(more, []);
      assert.match(problem!, `${name} must have a password of its own`);
      if (password !== '') assert.not.ok(problem!.includes(password), 'a problem is logged');
    }
});
