// Runs the health commands of docker-compose.yml, and Redis by its command there.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../helpers/world.ts';
import { interpolate, readComposeFile } from './helpers/compose-file.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'redis');
const { command = [], healthcheck } = readComposeFile().services.redis!;
const [port = 0] = await freePorts(1);
const password = 'b6e2';
const users = ['api', 'verify', 'consumer', 'relay'];
// What the command starts.
const programs = ['cat', 'sed', 'redis-server'];

// The container's paths and port, mapped to paths and a port of this machine.
const here = (text: string, on = port) =>
  interpolate(text)
    .replace(/\/(?:run\/secrets|etc\/keytally|(tmp))\//g, (_, tmp?: string) => `${folder}/${tmp ? 'tmp-' : ''}`)
    .replaceAll('-p 6379', `-p ${on}`);
const isWell = (on = port) =>
  promisify(execFile)('sh', ['-c', here(healthcheck?.test?.[1] ?? '', on)]).then(
    () => true,
    () => false,
  );

test.before(() => {
  mkdirSync(folder, { recursive: true });
  const settings = readFileSync(join(checkout, 'deploy/redis.conf'), 'utf8');
  writeFileSync(
    join(folder, 'redis.conf'),
    settings.replace(/^port .*$/m, `port ${port}`).replace(/^dir .*$/m, `dir ${folder}`),
  );
  writeFileSync(join(folder, 'redis_password'), `${password}\n`);
  for (const user of users) writeFileSync(join(folder, `redis_${user}_password`), `${password}+/${user}\n`);
  cpSync(join(checkout, 'sql/redis/users.conf'), join(folder, 'users.conf'));
  // Each program writes down its arguments first.
  mkdirSync(join(folder, 'bin'));
  for (const name of programs) {
    const real = execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();
    const text = `#!/bin/sh\nprintf '%s\\n' "${name} $*" >>'${folder}/arguments'\nexec '${real}' "$@"\n`;
    writeFileSync(join(folder, 'bin', name), text, { mode: 0o755 });
  }
});

test('Redis takes its settings and its passwords, which no argument shows, and is healthy while it serves', async () => {
  const server = spawn(
    'sh',
    command.slice(1).map((one) => here(one)),
    { stdio: 'ignore', env: { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` } },
  );
  const ended = once(server, 'exit');
  try {
    await eventually('Redis is healthy', () => isWell());
    const cli = async (...args: string[]) =>
      (await promisify(execFile)('redis-cli', ['-p', String(port), ...args])).stdout;
    const stdout = await cli('-a', password, 'config', 'get', 'max*', 'append*', 'auto-aof-rewrite-min-size');
    for (const setting of [
      'maxmemory\n2147483648',
      'maxmemory-policy\nnoeviction',
      'appendonly\nyes',
      'appendfsync\neverysec',
      'auto-aof-rewrite-min-size\n134217728',
    ])
      assert.match(stdout, setting);
    assert.is(statSync(join(folder, 'tmp-redis.conf')).mode & 0o777, 0o600);
    const started = readFileSync(join(folder, 'arguments'), 'utf8');
    for (const name of programs) assert.match(started, new RegExp(`^${name} `, 'm'));
    assert.not.match(started, password);

    assert.match(await cli('ping'), 'NOAUTH');
    // Each program has a user of its own, with the rights of its line in users.conf.
    for (const user of users) {
      const login = ['--user', `keytally_${user}`, '-a', `${password}+/${user}`];
      assert.match(await cli(...login, 'flushall'), /^NOPERM/, 'it is logged in, and may not');
    }
  } finally {
    server.kill('SIGTERM');
  }
  assert.is((await ended)[0], 0, 'the server itself gets the signal, not a shell before it');
  assert.not.ok(await isWell());
});
