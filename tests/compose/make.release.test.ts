// What make asks of Docker, as a `docker` that records its calls sees it, and when make does not ask.
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCheckout } from './helpers/checkout.ts';

const made = makeCheckout(join(process.env.TEST_FOLDER ?? '', 'checkout'));

test('make uses Docker Compose where an engine answers, and the stack of one machine where none does; STACK decides instead', () => {
  const native = 'native: apps/stack/main.ts up\n';
  for (const how of [[{ ENGINE: 'no' }], ['STACK=native'], [{ STACK: 'native' }]]) {
    const { status, out } = made.run('up', ...how);
    assert.equal([status, out], [0, native]);
  }
  for (const how of [{}, { STACK: 'docker' }])
    assert.ok(made.run('up', how).calls.includes('compose up -d --build --wait'));
  assert.is(
    made.run('token', 'TEAM=acme', { DATABASE_URL: 'postgres://elsewhere' }).out,
    'native: apps/stack/main.ts token --team acme\n',
    'token uses the servers that the environment names',
  );
  const { status, err, calls } = made.run('up', { STACK: 'docker', ENGINE: 'no' });
  assert.match(err, /^keytally: STACK=docker needs a Docker engine and its compose plugin, .*\nmake: .*\n$/);
  assert.equal([Boolean(status), calls], [true, ['info']]);
  assert.match(made.run('up', { STACK: 'podman' }).err, /^keytally: STACK is docker or native, not podman\n/);
});

test('make up makes each secret once, in a folder that only its owner may enter', () => {
  made.run('up');
  const first = made.secrets();
  assert.is(statSync(join(made.folder, 'secrets')).mode & 0o777, 0o700);
  // Containers read them as users of their own.
  for (const name of Object.keys(first)) assert.is(statSync(join(made.folder, 'secrets', name)).mode & 0o777, 0o644);
  assert.is(statSync(join(made.folder, 'secrets/env')).mode & 0o777, 0o600);
  assert.is(Buffer.from(first.master_key!, 'base64').length, 32);
  assert.is(new Set(Object.values(first)).size, 28);

  made.run('up');
  assert.equal(made.secrets(), first);
  writeFileSync(join(made.folder, 'secrets/database_url'), 'postgres://own@elsewhere/keytally\n');
  made.run('up');
  assert.equal(made.secrets(), { ...first, database_url: 'postgres://own@elsewhere/keytally' }, 'own servers stay');

  for (const [name, text] of Object.entries(first)) writeFileSync(join(made.folder, 'secrets', name), `${text}\n`);
});

const owner = (command: string) =>
  new RegExp(
    `^compose run --rm -T --no-deps -v ${made.folder}/secrets/redis_api_url:\\S+:ro -e REDIS_URL_FILE=\\S+ ` +
      `-v ${made.folder}/secrets/master_key:\\S+:ro -e MASTER_KEY_FILE=\\S+ migrate node apps/api/commands/${command}$`,
  );

test('make backup writes the file under its name once it is whole, and never over another one', () => {
  made.run('up');
  const file = join(made.folder, 'a.backup');
  const failed = made.run('backup', 'FILE=a.backup', { BACKUP: 'bad' });
  assert.match(failed.err, /^keytally: nothing was backed up\n/);
  assert.not.ok(existsSync(file) || existsSync(`${file}.partial`));

  const { status, out, calls } = made.run('backup', 'FILE=a.backup');
  assert.is(status, 0);
  assert.match(calls.at(-1) ?? '', owner('backup.ts'));
  assert.is(readFileSync(file, 'utf8'), 'backup-of-everything\n');
  assert.match(out, 'in a.backup\nThe master key is not in it. Keep a copy of secrets/master_key');
  assert.match(made.run('backup', 'FILE=a.backup').err, /^keytally: a\.backup is there already/);
  assert.match(made.run('backup').err, /^keytally: name the file to write: make backup FILE=/);
  assert.not.ok(existsSync(`${file}.partial`), 'nothing unfinished stays');

  const unfinished = join(made.folder, 'b.backup.partial');
  writeFileSync(unfinished, 'of another make backup');
  const said = made.run('backup', 'FILE=b.backup').err;
  assert.match(said, /^keytally: b\.backup\.partial cannot be made\. If it is there, another make backup writes it/m);
  assert.is(readFileSync(unfinished, 'utf8'), 'of another make backup');
});

test('make restore refuses a stack that runs, volumes that hold one, and a missing master key, and starts nothing', () => {
  const key = join(made.folder, 'secrets/master_key');
  const refused = (env: Record<string, string>, why: string, file = 'a.backup') => {
    const { status, err, calls } = made.run('restore', `FILE=${file}`, env);
    assert.ok(status);
    assert.not.ok(calls.some((call) => call.startsWith('compose up') || call.includes('restore.ts')));
    assert.ok(err.startsWith(`keytally: ${why}`), err);
  };
  refused({ RUNNING: 'clickhouse postgres api' }, 'the stack runs: stop it with make down');
  refused({ RESTORING: 'yes' }, 'another command is at work in a container');
  refused({ VOLUMES: 'some' }, 'the volumes of the project keytally hold a stack.');
  refused({}, 'there is no file b.backup', 'b.backup');
  renameSync(key, `${key}.away`);
  refused({}, 'the backup has no master key, and there is none in secrets/master_key');
  renameSync(`${key}.away`, key);
});

test('make restore checks the file before it starts a server, and loads it before it starts the stack', () => {
  const ours = (calls: string[]) => calls.filter((call) => /restore\.ts|^compose (up|build)|reconcile/.test(call));
  const bad = made.run('restore', 'FILE=a.backup', { RESTORE: 'bad' });
  assert.match(bad.err, /^keytally: nothing was restored\n/);
  assert.not.ok(bad.calls.some((call) => call.startsWith('compose up')));

  rmSync(join(made.folder, 'restored'));
  const { status, err, calls } = made.run('restore', 'FILE=a.backup');
  assert.is(status, 0, err);
  const [build, check, servers, load, up, reconcile] = ours(calls);
  assert.match(check ?? '', owner('restore.ts --check'));
  assert.match(load ?? '', owner('restore.ts'));
  assert.equal(build, 'compose build --quiet migrate');
  assert.equal(servers, 'compose up -d --wait postgres clickhouse');
  assert.equal(up, 'compose up -d --build --wait');
  assert.equal(reconcile, 'compose exec -T api node apps/api/commands/reconcile.ts');
  const given = readFileSync(join(made.folder, 'restored'), 'utf8');
  assert.is(given, 'backup-of-everything\n'.repeat(2), 'the file goes in');

  const again = made.run('restore', 'FILE=a.backup', { RUNNING: 'clickhouse postgres' });
  assert.equal([again.status, ours(again.calls)], [0, ours(calls)], 'after one that was cut off both servers run');
});
