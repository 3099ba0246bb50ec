// Asks npm's registry whether a package that we ship has a known vulnerability: make audit
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { checkout } from '../process/home.ts';

type Verdict = { ok: boolean; lines: string[] };
type Report = {
  vulnerabilities?: Record<
    string,
    { severity: string; range: string; via: (string | { title: string; url: string })[] }
  >;
  message?: string;
};

/** What `npm audit --json` reports, in lines. A registry that does not answer it fails nothing, but is reported. */
export function verdictOf(output: string): Verdict {
  const report = parse(output);
  if (!report?.vulnerabilities) {
    const why = report?.message ?? 'its answer was not understood';
    return { ok: true, lines: [`NOT AUDITED: the registry does not report vulnerabilities (${why})`] };
  }
  const found = Object.entries(report.vulnerabilities).map(([name, { severity, range, via }]) => {
    const causes = via.map((cause) => (typeof cause === 'string' ? `by ${cause}` : `${cause.title} ${cause.url}`));
    return `${severity}: ${name} ${range}: ${causes.join('; ')}`;
  });
  return { ok: found.length === 0, lines: found.length === 0 ? ['no package has a known vulnerability'] : found };
}

function parse(output: string): Report | undefined {
  try {
    return JSON.parse(output) as Report;
  } catch {
    return undefined;
  }
}

if (import.meta.main) {
  const asked = promisify(execFile)('npm', ['audit', '--json', '--omit=dev'], { cwd: checkout });
  // npm exits with 1 when it found something, and when the registry did not answer: its output shows which.
  const { stdout } = await asked.catch((error: unknown) => error as { stdout?: string });
  const { ok, lines } = verdictOf(stdout ?? '');
  console.log(lines.join('\n'));
  process.exitCode = ok ? 0 : 1;
}
