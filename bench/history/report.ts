import { table } from '../../apps/stack/demo/print.ts';
import type { Measured } from './run.ts';

/** The most that a program or server may take, in MB. */
const LIMITS_MB: Record<string, number> = { api: 512, clickhouse: 3_072 };
/** How late the usage of other records may be in the books. */
const LATE_WITHIN_SECONDS = 5;

/** The table of what was measured, and every limit that was missed. */
export function report(measured: Measured[]): { text: string; missed: string[] } {
  const head = ['Operation', '>seconds', '>limit', '>api', '>ClickHouse', '>others late', '>others down', ''];
  const rows = measured.map((one) => [
    one.name,
    one.seconds.toFixed(1),
    Number.isFinite(one.withinSeconds) ? String(one.withinSeconds) : '',
    megabytes(one.peaks.get('api')),
    megabytes(one.peaks.get('clickhouse')),
    seconds(one.others.lateMs),
    seconds(one.others.downMs),
    missedBy(one).length === 0 ? 'held' : 'MISSED',
  ]);
  return { text: table(head, rows), missed: measured.flatMap(missedBy) };
}

function missedBy({ name, seconds: took, withinSeconds, peaks, others, wrong }: Measured): string[] {
  const late = others.lateMs / 1000;
  const missed = [
    ...(wrong === undefined ? [] : [wrong]),
    ...(took > withinSeconds ? [`took ${took.toFixed(1)} s, not ${withinSeconds}`] : []),
    ...(late > LATE_WITHIN_SECONDS ? [`other records' usage was ${late.toFixed(1)} s late`] : []),
    ...[...peaks].flatMap(([process, mb]) =>
      mb < LIMITS_MB[process]! ? [] : [`${process} took ${Math.round(mb)} MB, not below ${LIMITS_MB[process]}`],
    ),
  ];
  return missed.map((what) => `${name}: ${what}`);
}

function megabytes(mb: number | undefined): string {
  return mb === undefined ? '-' : `${Math.round(mb)} MB`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
