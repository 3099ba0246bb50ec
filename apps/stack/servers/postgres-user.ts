import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { promisify } from 'node:util';
import { succeeds } from '../../../shared/runtime/succeeds.ts';
import { StackError } from '../process/errors.ts';

const run = promisify(execFile);

type Owner = { uid: number; gid: number };

export interface PostgresUser {
  /** The owner that PostgreSQL's files need; absent if that is this user. */
  files?: Owner;
  /** How to start one of its binaries as that user. */
  command(binary: string, args: string[]): { command: string; args: string[]; owner?: Owner };
}

/**
 * PostgreSQL refuses to run as root, so root starts it as the user `postgres`, which is made if missing. That user can't
 * enter a folder like /root; there PostgreSQL starts with the one capability that lets it pass.
 */
export async function chooseUser(binary: string, folder: string, data: string): Promise<PostgresUser> {
  if (process.getuid?.() !== 0) return { command: (command, args) => ({ command, args }) };
  // Existing data keeps its owner: a user other than root may have made it.
  const { uid, gid } = statSync(data, { throwIfNoEntry: false }) ?? (await findUser()) ?? (await makeUser());
  const owner = { uid, gid };
  const plain: PostgresUser = { files: owner, command: (command, args) => ({ command, args, owner }) };
  if (await reaches(plain, binary, folder)) return plain;

  const become = [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups'];
  const keep = ['--inh-caps=-all,+dac_override', '--ambient-caps=-all,+dac_override'];
  // Without this, access(2), with which initdb finds its files, would ignore the capability.
  const keepAcrossSetuid = ['--securebits=+no_setuid_fixup', '--'];
  const capable: PostgresUser = {
    files: owner,
    command: (command, args) => ({
      command: 'setpriv',
      args: [...become, ...keep, ...keepAcrossSetuid, command, ...args],
    }),
  };
  if (await reaches(capable, binary, folder)) return capable;
  throw new StackError(
    `PostgreSQL runs as the user "postgres" when started by root, and that user may not enter ${folder} or run ${binary}: ` +
      'move the checkout and KEYTALLY_HOME to where it may, or start this as another user than root',
  );
}

async function reaches(user: PostgresUser, binary: string, folder: string): Promise<boolean> {
  const tries = [user.command(binary, ['--version']), user.command('/bin/sh', ['-c', 'cd "$0"', folder])];
  for (const { command, args, owner } of tries) {
    const ok = await succeeds(run(command, args, { ...owner, cwd: '/' }));
    if (!ok) return false;
  }
  return true;
}

async function findUser(): Promise<Owner | undefined> {
  const id = (flag: string) =>
    run('id', [flag, 'postgres']).then(
      ({ stdout }) => Number(stdout),
      () => undefined,
    );
  const [uid, gid] = await Promise.all([id('-u'), id('-g')]);
  return uid === undefined || gid === undefined ? undefined : { uid, gid };
}

async function makeUser(): Promise<Owner> {
  await run('useradd', ['--system', '--user-group', '--no-create-home', 'postgres']).catch(() => undefined);
  const made = await findUser();
  if (!made)
    throw new StackError(
      'PostgreSQL does not run as root, and the user "postgres" could not be made: useradd --system postgres',
    );
  return made;
}
