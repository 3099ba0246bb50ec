// Checks the Python client as make check does everything else: linter, format, types. Without Python it says so; in CI that is a failure.
import { spawnSync } from 'node:child_process';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { ensurePython, pythonClient } from '../../apps/stack/servers/python.ts';

const checks = [
  ['ruff', 'check', '--quiet', '--no-cache', '--config', 'pyproject.toml', '.', '../../docs'],
  ['ruff', 'format', '--check', '--quiet', '--no-cache', '--config', 'pyproject.toml', '.', '../../docs'],
  ['mypy', '--no-error-summary', '--cache-dir', '../../node_modules/.cache/mypy'],
];

try {
  const env = { ...process.env, ...(await ensurePython()) };
  for (const check of checks) {
    const { status } = spawnSync('python3', ['-m', ...check], { cwd: pythonClient, env, stdio: 'inherit' });
    if (status === 0) continue;
    console.error(`keytally: ${check.join(' ')} failed in clients/python`);
    process.exitCode = 1;
  }
} catch (error) {
  if (!(error instanceof StackError)) throw error;
  console.error(`****  NOT CHECKED, for want of Python: clients/python (${describeFailure(error)})`);
  if (process.env.CI === 'true') process.exitCode = 1;
}
