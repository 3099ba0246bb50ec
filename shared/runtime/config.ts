import { readFileSync } from 'node:fs';
import { configProblems } from './config-rules.ts';
import { outputOf } from './output-of.ts';
import type { Variable } from './variable-kinds.ts';
import type { ConfigOf, Variables } from './variables.ts';

/** The configuration is not valid; `problems` has one line per variable. */
export class ConfigError extends Error {
  constructor(problems: string[]) {
    super(`the configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  }
}

/** Reads the variables that a program needs. Throws a ConfigError that lists everything wrong with them at once. */
export function readConfig<Read extends Variables>(read: Read, env: NodeJS.ProcessEnv = process.env): ConfigOf<Read> {
  const problems: string[] = [];
  const entries = Object.entries<Variable<unknown>>(read).map(([name, variable]) => {
    try {
      const given = givenFor(name, variable, env) ?? variable.default;
      if (given === undefined || (given === '' && variable.default === undefined)) throw new Error('must be set');
      return [name, variable.parse(given)];
    } catch (error) {
      problems.push(`${name} ${(error as Error).message} (${variable.about})`);
      return [name, undefined];
    }
  });
  const config = Object.fromEntries(entries) as ConfigOf<Read>;
  problems.push(...configProblems(config));
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}

/** Reads the configuration of an entry point. One that is not valid is printed, and ends the process with 1. */
export function readConfigOrExit<Read extends Variables>(read: Read): ConfigOf<Read> {
  try {
    return readConfig(read);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}

function givenFor(name: string, variable: Variable<unknown>, env: NodeJS.ProcessEnv): string | undefined {
  const { [name]: value, [`${name}_FILE`]: file, [`${name}_COMMAND`]: command } = env;
  if (!command || !variable.byCommand) return value ?? fromFile(file);
  if (value || file) throw new Error(`is given twice: set one of ${name}, ${name}_FILE and ${name}_COMMAND`);
  return outputOf(command, `${name}_COMMAND`);
}

function fromFile(path: string | undefined): string | undefined {
  return path === undefined ? undefined : readFileSync(path, 'utf8').trim();
}
