import { table } from '../../apps/stack/demo/print.ts';
import type { Measured } from './measure.ts';

/** The good team's p99 stays below so many times its calm value. */
const MOST_TIMES = 5;
/** No process grows by so many MB. */
const MOST_GROWN_MB = 100;

/** The table of what the good team saw, and every limit that was missed. */
export function report(measured: Measured[]): { text: string; missed: string[] } {
  const calmMs = median(measured.map(({ calm }) => calm.p99Ms));
  const head = [
    'Attack',
    'by',
    '>calm p99',
    '>p99',
    '>times',
    '>of it service',
    '>failed',
    '>grown most',
    'attacker was answered',
    '',
  ];
  const rows = measured.map((one) => [
    one.name,
    one.by,
    milliseconds(one.calm.p99Ms),
    milliseconds(one.attacked.p99Ms),
    (one.attacked.p99Ms / calmMs).toFixed(1),
    milliseconds(one.attacked.workedP99Ms),
    String(one.attacked.failed),
    mostGrown(one),
    Object.entries(one.answers)
      .map(([status, count]) => `${count.toLocaleString('en')} × ${status === '0' ? 'nothing' : status}`)
      .join(', '),
    missedBy(one, calmMs).length === 0 ? 'held' : 'MISSED',
  ]);
  return { text: table(head, rows), missed: measured.flatMap((one) => missedBy(one, calmMs)) };
}

function missedBy({ name, attacked, grownMb }: Measured, calmMs: number): string[] {
  const times = attacked.p99Ms / calmMs;
  return [
    ...(times < MOST_TIMES
      ? []
      : [`the good team's p99 was ${times.toFixed(1)} times the calm ${milliseconds(calmMs)}`]),
    ...(attacked.failed === 0 ? [] : [`${attacked.failed} of the good team's ${attacked.calls} calls failed`]),
    ...[...grownMb].flatMap(([process, mb]) =>
      mb < MOST_GROWN_MB ? [] : [`${process} grew by ${Math.round(mb)} MB, not below ${MOST_GROWN_MB}`],
    ),
  ].map((what) => `${name}: ${what}`);
}

function mostGrown({ grownMb }: Measured): string {
  const [[process, mb] = ['-', 0]] = [...grownMb].toSorted(([, a], [, b]) => b - a);
  return `${process} ${Math.round(mb)} MB`;
}

function milliseconds(ms: number): string {
  return Number.isNaN(ms) ? '-' : `${ms.toFixed(1)} ms`;
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
