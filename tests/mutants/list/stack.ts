import type { Mutant } from '../mutant.ts';

export const stack: Mutant[] = [
  {
    name: 'a program that ran for ten seconds is steady',
    file: 'apps/stack/process/supervisor.ts',
    from: 'ranMs > STEADY_AFTER_MS',
    to: 'ranMs >= STEADY_AFTER_MS',
  },
  {
    name: 'a quote in the env file ends its value',
    file: 'apps/stack/process/home.ts',
    from: String.raw`value.replaceAll("'", "'\\''")`,
    to: 'value',
  },
  {
    name: 'a new master key is made where there is data of another',
    file: 'apps/stack/process/home.ts',
    from: "if (!existsSync(file) && existsSync(join(folder, 'postgres/data')))",
    to: "if (!existsSync(file) && existsSync(join(folder, 'postgres/datas')))",
  },
  {
    name: 'programs of a stack take the master key that the environment fetches',
    file: 'apps/stack/servers/programs.ts',
    from: '|MASTER_KEY|HOST|',
    to: '|HOST|',
  },
  {
    name: 'containers keep the rights of root',
    file: 'docker-compose.yml',
    from: 'cap_drop: [ALL]',
    to: 'cap_drop: []',
    seenBy: 'tests/compose/compose.test.ts',
  },
  {
    name: 'containers of the consumer reach out',
    file: 'docker-compose.yml',
    from: '  consumer: { internal: true }',
    to: '  consumer: {}',
    seenBy: 'tests/compose/compose.test.ts',
  },
  {
    name: 'a secret is taken for one whatever its checksum',
    file: 'deploy/secret-scanning/check.mjs',
    from: 'crc32(text.slice(0, -6)) === checksum',
    to: 'checksum > 0',
    seenBy: 'tests/docs/secret-scanning.test.ts',
  },
];
