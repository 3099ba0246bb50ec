import { isAbsolute, join } from 'node:path';
import { configureGlobal } from 'fast-check';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';

// A process that runs test files one after the other, each as its parent asks: importing our programs costs more than most tests.

/** A file to run, and what is added to the environment for it. */
export type Task = { file: string; env: Record<string, string> };
/** Ends a file, and asks where it is and what it printed. */
export type Hanging = { hangs: string };
/** What became of it; `problem` is why the process ends with it. */
export type Outcome = { total: number; passed: number; skipped: number; output: string; problem?: string };

type SuiteResult = [errors: string | true, passed: number, skipped: number, total: number];
type Uvu = {
  UVU_DEFER: number;
  UVU_TEST?: string;
  UVU_QUEUE: (() => Promise<SuiteResult>)[][];
  /** The suites that were made, by uvu-hooks.ts, and what is to be done after them, by ../helpers/at-end.ts. */
  UVU_SUITES: { run(): void }[];
  UVU_ENDS: (() => unknown)[];
};

// No test fails by chance: what a property does not choose for itself comes from one seed.
configureGlobal({ seed: 1 });
const begun = { ...process.env };
const uvu = globalThis as unknown as Uvu;
uvu.UVU_DEFER = 1;
// It looks at that as it is loaded.
const { test } = await import('uvu');
let output = '';

for (const stream of [process.stdout, process.stderr]) {
  stream.write = (text: string | Uint8Array) => {
    output += typeof text === 'string' ? text : Buffer.from(text).toString();
    return true;
  };
}
process.on('uncaughtException', end);
process.on('unhandledRejection', (error) => {
  // As in our programs: postgres rejects a promise of its own that nobody has.
  if (!isPostgresConnectionError(error)) end(error);
});
process.on('disconnect', () => process.exit());
process.on('message', (message: Task | Hanging) => {
  if ('hangs' in message) return tell(`${message.hangs}, in or after its test "${uvu.UVU_TEST ?? 'before all'}"`);
  // What an earlier file left in it would change the next one.
  for (const name of Object.keys(process.env)) if (!(name in begun)) delete process.env[name];
  Object.assign(process.env, begun, message.env);
  void run(message.file).then((outcome) => process.send!(outcome), end);
});

async function run(file: string): Promise<Outcome> {
  output = '';
  delete uvu.UVU_TEST;
  uvu.UVU_QUEUE = [[]];
  // All files share the suite that uvu makes itself.
  [uvu.UVU_SUITES, uvu.UVU_ENDS] = [[test], []];
  await import(isAbsolute(file) ? file : join(process.cwd(), file));
  for (const suite of uvu.UVU_SUITES) suite.run();
  const outcome = { total: 0, passed: 0, skipped: 0 };
  for (const suite of uvu.UVU_QUEUE[0]!) {
    const [errors, passed, skipped, total] = await suite();
    if (errors !== true) output += `\n${errors}\n`;
    outcome.total += total;
    outcome.passed += passed;
    outcome.skipped += skipped;
  }
  for (const work of uvu.UVU_ENDS.toReversed()) await work();
  return { ...outcome, output };
}

// What nobody waits for may come from an earlier file; the one that runs is told of it.
function end(error: unknown): void {
  output += `\n${error instanceof Error ? error.stack : String(error)}\n`;
  tell('was ended by an error');
}

function tell(problem: string): void {
  const outcome: Outcome = { total: 0, passed: 0, skipped: 0, output, problem };
  process.send!(outcome, () => process.exit(1));
}
