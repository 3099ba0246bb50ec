type Pattern = { regex: string; message: string };

const refuse = (rooms: string[], message: string, folder = ''): Pattern => {
  return { regex: `^(\\.\\./)+${folder}(${rooms.join('|')})/`, message };
};
const imports = (...patterns: Pattern[]) => ({ 'eslint/no-restricted-imports': ['error', { patterns }] });

/** The rooms of a folder, each of which may import those behind it alone; `all` is refused to each. */
function downwards(folder: string, rooms: string[], all: (place: string) => Pattern) {
  return rooms.map((room, i) => {
    const place = `${folder}/${room}`;
    const message = `${place} stands below the room that you import from. Of ${folder} it may import ${rooms.slice(i + 1).join(', ') || 'itself only'}`;
    return {
      files: [`${place}/**`],
      rules: imports(all(place), ...(i > 0 ? [refuse(rooms.slice(0, i), message)] : [])),
    };
  });
}

const shared = ['verification', 'books', 'events', 'auth', 'http', 'stores', 'contract', 'runtime', 'values'];
const programs = ['api', 'verify', 'relay', 'consumer', 'webhooks'];
const ofProgram = (name: string) =>
  refuse(
    [...programs.filter((one) => one !== name), 'stack', 'bench', 'tests'],
    `apps/${name} is a program: it imports no other program, only clients and shared`,
  );
const ofStack = () => refuse([...programs, 'bench', 'tests'], 'apps/stack starts programs and imports none');
const overHttp = (name: string, more: string[] = []) =>
  refuse(
    [...programs, ...more, 'stack', 'bench', 'tests'],
    `apps/${name} speaks with the api over HTTP, and imports no program`,
  );
const inBrowser = 'apps/console runs in a browser: it imports no program, only the contract and values';
const rooms = ['commands', 'generate', 'backup', 'routes', 'http', 'audit', 'resources', 'reopen', 'sync'];
const besideBackup = rooms.filter((room) => room !== 'backup');

const tested = ['**/*.test.ts', '**/helpers/**'];

export default {
  plugins: ['typescript', 'import', 'unicorn', 'promise', 'node'],
  jsPlugins: ['./tests/linter/own.ts'],
  categories: { correctness: 'error', suspicious: 'error' },
  rules: {
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': ['error', { checksVoidReturn: false }],
    'typescript/no-explicit-any': 'error',
    'typescript/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
    'typescript/no-unsafe-type-assertion': 'off',
    'typescript/unbound-method': 'off',
    'import/no-cycle': ['error', { ignoreTypes: false }],
    'import/no-unassigned-import': 'off',
    'own/no-queries': 'error',
    'own/no-allowing': 'error',
    'own/gone-words': 'error',
    'own/mended-driver': 'error',
    'node/no-process-env': 'error',
    'eslint/no-console': 'error',
    'eslint/no-shadow': 'off',
    'eslint/no-underscore-dangle': 'off',
    'eslint/no-await-in-loop': 'off',
    'eslint/no-unmodified-loop-condition': 'off',
    'promise/always-return': 'off',
    'typescript/consistent-return': 'off',
    'typescript/no-unnecessary-type-parameters': 'off',
    'unicorn/consistent-function-scoping': 'off',
  },
  overrides: [
    { files: ['clients/node/contract.ts'], rules: { 'own/gone-words': 'off' } },
    ...downwards('shared', shared, (place) =>
      refuse(['apps', 'bench', 'clients', 'tests'], `${place} serves all programs: it may import only from shared`),
    ),
    {
      files: ['clients/**'],
      rules: imports(
        refuse(['apps', 'bench', 'shared', 'tests'], 'the client is published: it imports nothing of the service'),
      ),
    },
    ...programs.map((name) => ({ files: [`apps/${name}/**`], rules: imports(ofProgram(name)) })),
    ...downwards('apps/api', rooms, () => ofProgram('api')),
    {
      files: ['apps/api/backup/**'],
      rules: imports(
        ofProgram('api'),
        refuse(besideBackup, 'apps/api/backup stands apart: of apps/api it may import itself only'),
      ),
    },
    {
      files: ['apps/console/**'],
      rules: imports(
        refuse([...programs.slice(0, -1), 'stack', 'bench', 'tests'], inBrowser),
        refuse(
          shared.filter((room) => room !== 'contract' && room !== 'values'),
          inBrowser,
          'shared/',
        ),
      ),
    },
    { files: ['apps/import/**'], rules: imports(overHttp('import')) },
    {
      files: ['apps/mcp/**'],
      rules: imports(
        overHttp('mcp', ['import']),
        refuse(
          shared.slice(0, -3),
          'apps/mcp speaks with the api over HTTP: of shared it may import contract, values and runtime',
          'shared/',
        ),
      ),
    },
    { files: ['apps/stack/*.ts'], rules: imports(ofStack()) },
    ...downwards('apps/stack', ['commands', 'demo', 'restore', 'servers', 'process'], ofStack),
    {
      files: ['tests/**'],
      rules: imports(refuse(['bench'], 'tests stands below bench: bench may import tests, never the other way')),
    },
    {
      files: tested,
      rules: {
        'eslint/no-restricted-imports': 'off',
        'typescript/no-explicit-any': 'off',
        'node/no-process-env': 'off',
      },
    },
    {
      files: [
        'shared/books/**',
        'shared/stores/clickhouse.ts',
        'apps/consumer/**',
        'apps/api/commands/restored.ts',
        'apps/stack/{demo/past,restore/lost}.ts',
        'bench/**',
        'tests/**',
        ...tested,
      ],
      rules: { 'own/no-queries': 'off' },
    },
    {
      files: [
        'apps/api/resources/{access/access,billings/billings}.ts',
        'shared/books/{meters/proof,statements/usage}.ts',
        'apps/consumer/jobs/plan-meters.ts',
        'bench/**',
        ...tested,
      ],
      rules: { 'own/no-allowing': 'off' },
    },
    {
      files: ['apps/import/**', 'apps/mcp/**', 'apps/stack/**', 'bench/**', 'docs/**', 'tests/**'],
      rules: { 'eslint/no-console': 'off', 'node/no-process-env': 'off' },
    },
    { files: ['apps/{api,verify,consumer,webhooks,relay}/**', 'shared/**'], rules: { 'own/given-time': 'error' } },
    {
      files: [
        'apps/*/main.ts',
        'apps/api/commands/**',
        'apps/api/vault/transit.ts',
        'shared/http/{http-server,listen}.ts',
        'shared/runtime/{clock,log-output,run}.ts',
        'shared/runtime/otel/**',
        '**/*.test.ts',
        '**/{helpers,tests}/**',
      ],
      rules: { 'own/given-time': 'off' },
    },
    { files: ['shared/runtime/config.ts'], rules: { 'node/no-process-env': 'off' } },
    { files: ['apps/api/commands/**'], rules: { 'eslint/no-console': 'off' } },
  ],
};
