// Imports keys that were made elsewhere: npm run import -- --from unkey.csv --workspace ws_… (docs/move-here.md).
import '../../shared/runtime/require-node.ts';
import { closeSync, existsSync, openSync, readFileSync, realpathSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { checkKeys } from './check.ts';
import { finish, meterSources } from './finish.ts';
import { formOf, forms, textIn } from './forms.ts';
import { run } from './run.ts';
import { sendKeys } from './send.ts';
import { makeTally } from './tally.ts';

const USAGE = `usage: npm run import -- --from FILE [--workspace ID] [--form ${Object.keys(forms).join(' | ')}] [--dry-run]
  [--meter-from customerId | key | none] [--without-credits] [--allow-weak] [--restore] [--report FILE] [--skip ROWS]
The form is what the file's name begins with. KEYTALLY_API_URL and KEYTALLY_TOKEN name the api and a token with key:write, and with
billing:write for --meter-from. --restore brings back keys that were deleted here.`;

const PROGRESS_EVERY_MS = 10_000;
// Said before anything is written.
const METERS = {
  customerId: 'meters: from customerId, so keys of a customer share a billing record',
  key: 'meters: from key, so each key has a billing record of its own',
  none: 'meters: none but what the file names, so use of the other keys is not billed (--meter-from)',
};

try {
  process.exitCode = await main();
} catch (error) {
  console.error(`import: ${(error as Error).message}`);
  process.exitCode = 2;
}

async function main(): Promise<number> {
  const options = readOptions();
  const { from, skip, dryRun } = options;
  const rows = options.read(textIn(readFileSync(from)), Date.now());
  const stopped = new AbortController();
  if (!dryRun) for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
  // Opened and written at once, not by a stream: what fails there ends the run like any failure.
  const report = options.report === undefined ? undefined : openSync(options.report, skip > 0 ? 'a' : 'w', 0o600);
  const tally = makeTally((line) => report !== undefined && writeSync(report, `${JSON.stringify(line)}\n`));
  const progress = setInterval(() => {
    const { rows, imported, existing, failed } = tally.counts;
    console.error(`${rows} keys: ${imported} imported, ${existing} before, ${failed} refused`);
  }, PROGRESS_EVERY_MS);
  try {
    console.log(METERS[options.meterFrom]);
    const finished = rows.map((row) => finish(row, options));
    const doneTo = await run(finished, { ...options, tally, signal: stopped.signal });
    if (stopped.signal.aborted) console.error(`stopped; go on with --skip ${doneTo}`);
  } catch (error) {
    const { doneTo } = error as { doneTo?: number };
    if (doneTo) console.error(`the first ${doneTo} rows are done; go on with --skip ${doneTo}`);
    throw error;
  } finally {
    clearInterval(progress);
    if (report !== undefined) closeSync(report);
    for (const line of tally.lines(dryRun)) console.log(line);
  }
  const { rows: read, failed } = tally.counts;
  const isStopped = stopped.signal.aborted;
  if (read === 0 && skip === 0 && !isStopped)
    throw new Error(`${basename(from)} holds no keys in the form that is read`);
  return failed > 0 || isStopped ? 1 : 0;
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      from: { type: 'string' },
      form: { type: 'string' },
      workspace: { type: 'string' },
      report: { type: 'string' },
      skip: { type: 'string', default: '0' },
      'dry-run': { type: 'boolean', default: false },
      'meter-from': { type: 'string', default: 'none' },
      'without-credits': { type: 'boolean', default: false },
      'allow-weak': { type: 'boolean', default: false },
      restore: { type: 'boolean', default: false },
    },
  });
  const { from, workspace, report } = values;
  if (from === undefined) throw new Error(USAGE);
  const read = forms[values.form ?? formOf(basename(from)) ?? ''];
  if (!read) throw new Error(`no form is known for ${basename(from)}; name it with --form\n${USAGE}`);
  const dryRun = values['dry-run'];
  const meterFrom = meterSources.find((source) => source === values['meter-from']);
  if (meterFrom === undefined) throw new Error('--meter-from must be customerId, key or none');
  const skip = Number(values.skip);
  if (!Number.isSafeInteger(skip) || skip < 0) throw new Error('--skip must be a whole number from 0 on');
  if (report !== undefined && existsSync(report) && realpathSync(report) === realpathSync(from))
    throw new Error('--report is the file to import');
  return {
    from,
    read,
    report,
    dryRun,
    meterFrom,
    withoutCredits: values['without-credits'],
    allowWeak: values['allow-weak'],
    restore: values.restore,
    workspaceId: workspace,
    skip,
    send: dryRun ? async (items: Parameters<typeof checkKeys>[0]) => checkKeys(items) : sender(),
  };
}

function sender() {
  const { KEYTALLY_API_URL: url = '', KEYTALLY_TOKEN: token = '' } = process.env;
  if (!URL.canParse(url) || token === '') throw new Error(`KEYTALLY_API_URL or KEYTALLY_TOKEN is not set\n${USAGE}`);
  const target = { url: url.endsWith('/') ? url.slice(0, -1) : url, token };
  return (items: Parameters<typeof sendKeys>[1], signal: AbortSignal) => sendKeys(target, items, signal);
}
