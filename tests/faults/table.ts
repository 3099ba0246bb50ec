import type { Case, Violation } from './checks/case.ts';
import { isUndecided } from './checks/case.ts';
import { outages } from './checks/outages.ts';

/** The outcome of all phases of one fault. */
type Row = {
  fault: string;
  injected: number;
  calls: number;
  undecided: number;
  verifyMs: number;
  manageMs: number;
  violations: number;
};

/** The Markdown table of one or more runs: a line for each fault, and their sum. */
export function table(cases: readonly Case[], violations: readonly Violation[]): string {
  const byFault = [...Map.groupBy(cases, (one) => one.fault)];
  const rows = byFault.map(([fault, ofFault]): Row => {
    const measured = ofFault.map(outages);
    return {
      fault,
      injected: ofFault.length,
      ...calls(ofFault),
      verifyMs: Math.max(...measured.map(({ verifyMs }) => verifyMs)),
      manageMs: Math.max(...measured.map(({ manageMs }) => manageMs)),
      violations: violations.filter((violation) => violation.fault === fault).length,
    };
  });
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0);
  const all: Row = {
    fault: 'all',
    injected: sum((row) => row.injected),
    calls: sum((row) => row.calls),
    undecided: sum((row) => row.undecided),
    verifyMs: Math.max(0, ...rows.map((row) => row.verifyMs)),
    manageMs: Math.max(0, ...rows.map((row) => row.manageMs)),
    violations: sum((row) => row.violations),
  };
  const head = ['Fault', 'Injected', 'Calls', 'Undecided', 'Verify down', 'Management down', 'Violations'];
  const lines = [...rows.toSorted((a, b) => a.fault.localeCompare(b.fault)), all].map((row) => [
    row.fault,
    String(row.injected),
    String(row.calls),
    String(row.undecided),
    seconds(row.verifyMs),
    seconds(row.manageMs),
    String(row.violations),
  ]);
  return aligned([head, ...lines]);
}

function calls(cases: Case[]): { calls: number; undecided: number } {
  const made = cases.flatMap((one) => [...one.verified, ...one.held, ...one.settled, ...one.changed, ...one.reads]);
  return { calls: made.length, undecided: made.filter(isUndecided).length };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function aligned(cells: string[][]): string {
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)));
  const line = (row: string[]) =>
    `| ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join(' | ')} |`;
  const rule = widths.map((width, i) => (i === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(cells[0]!), `| ${rule.join(' | ')} |`, ...cells.slice(1).map(line)].join('\n');
}
