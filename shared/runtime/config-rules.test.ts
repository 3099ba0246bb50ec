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

test('safe settings pass in production', () => {
  assert.equal(configProblems(good), []);
  assert.equal(configProblems({ ...good, TLS_CERTIFICATE_PATH: '', TLS_KEY_PATH: '', TLS_BY_PROXY: true }), []);
  for (const HOST of ['127.0.0.1', '127.1.2.3', '::1', 'localhost'])
    assert.equal(configProblems({ ...good, HOST, TLS_CERTIFICATE_PATH: '', TLS_KEY_PATH: '' }), [], HOST);
});

test('plain HTTP on an address that other machines reach is refused, unless a proxy speaks TLS', () => {
  const plain = { ...good, TLS_CERTIFICATE_PATH: '', TLS_KEY_PATH: '' };
  for (const HOST of ['0.0.0.0', '::', '10.0.0.5', '2001:db8::1', 'api.example'])
    assert.match(configProblems({ ...plain, HOST }).join(), /^HOST .* can be reached from outside/, HOST);
  assert.equal(configProblems({ ...plain, NODE_ENV: '' }), []);
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
  assert.match(configProblems({ ...good, REDIS_URL: 'redis://redis:6379' }).join(), /REDIS_URL .* not none/);
  assert.match(configProblems({ ...good, KAFKA_SASL_PASSWORD: 'kafka' }).join(), /KAFKA_SASL_PASSWORD must not be/);
  assert.match(configProblems({ ...good, MASTER_KEY: Buffer.alloc(32, 7) }).join(), /MASTER_KEY must be random/);
});

test('a certificate without its key is refused', () => {
  assert.match(configProblems({ ...good, TLS_KEY_PATH: '' }).join(), /must be set together/);
});

test('several workers need a port with a fixed number', () => {
  assert.match(configProblems({ WORKERS: 2, PORT: 0 }).join(), /set PORT to its number/);
  assert.equal(configProblems({ WORKERS: 2, PORT: 8081 }), []);
  assert.equal(configProblems({ WORKERS: 1, PORT: 0 }), []);
});

test('OPS_PORT is another port than PORT, and several workers share one that is named', () => {
  assert.equal(configProblems({ ...good, PORT: 8080, OPS_PORT: 9090 }), []);
  assert.equal(configProblems({ ...good, PORT: 0, OPS_PORT: 0 }), [], 'any two free ports');
  assert.match(configProblems({ ...good, PORT: 8080, OPS_PORT: 8080 }).join(), /^OPS_PORT must differ from PORT/);
  const shared = configProblems({ ...good, PORT: 8080, OPS_PORT: 0, WORKERS: 2 }).join();
  assert.match(shared, /^WORKERS above 1 share one OPS_PORT/);
});
