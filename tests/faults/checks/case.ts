import type {
  Changed,
  Emptied,
  Entity,
  Finding,
  Held,
  Line,
  Read,
  Record_,
  Restored,
  Return,
  Settled,
  Span,
  SpanKind,
  Told,
  Verified,
} from '../history.ts';

/** Everything that was recorded of one phase. */
export type Case = {
  phase: number;
  fault: string;
  startedAtMs: number;
  verified: Verified[];
  held: Held[];
  settled: Settled[];
  changed: Changed[];
  reads: Read[];
  spans: Span[];
  emptied: Emptied[];
  restored: Restored[];
  records: Record_[];
  entities: Entity[];
  told: Told[];
  returns: Return[];
  findings: Finding[];
  /** The highest load of the machine, for each core. */
  load: number;
};

/** Something that must never happen, and did. */
export type Violation = { phase: number; fault: string; rule: string; text: string };
export type Say = (rule: string, text: string) => void;

/** Splits a history into its phases. */
export function casesOf(lines: readonly Line[]): Case[] {
  const startedAtMs = lines.find((line) => line.type === 'run')?.startedAtMs ?? 0;
  const cases = new Map<number, Case>();
  for (const line of lines) {
    if (line.type === 'run') continue;
    let one = cases.get(line.phase);
    if (!one) cases.set(line.phase, (one = emptyCase(line.phase, startedAtMs)));
    add(one, line);
  }
  return [...cases.values()];
}

/** The spans of a kind. */
export function spansOf({ spans }: Case, what: SpanKind): Span[] {
  return spans.filter((span) => span.what === what);
}

/** When Redis may have lost what it had: from then on it may decide by less. */
export function lossesOf(one: Case): { from: number; to: number }[] {
  return [
    ...one.emptied.map(({ at }) => ({ from: at, to: at })),
    ...one.restored.map(({ backupFrom, at }) => ({ from: backupFrom, to: at })),
    ...spansOf(one, 'lagged').map(({ from, to }) => ({ from, to })),
  ];
}

/** Whether the outcome of an attempt is unknown. */
export function isUndecided({ http }: { http?: number }): boolean {
  return http === undefined || http >= 500;
}

/** Whether a call or change came after the beginning of a backup that was restored later: it may be lost. */
export function mayBeUndone({ restored }: Case, { from, to }: { from: number; to: number }): boolean {
  return restored.some(({ backupFrom, at }) => to >= backupFrom && from <= at);
}

/** Whether an attempt was answered with success and no restore can have taken that back. */
export function isLasting(one: Case, attempt: { from: number; to: number; http?: number }): boolean {
  return attempt.http !== undefined && attempt.http < 300 && !mayBeUndone(one, attempt);
}

/** Lines grouped by a key, each group in the order of their beginning. */
export function grouped<T extends { from: number }>(lines: readonly T[], by: (line: T) => string): Map<string, T[]> {
  return Map.groupBy(
    lines.toSorted((a, b) => a.from - b.from),
    by,
  );
}

function emptyCase(phase: number, startedAtMs: number): Case {
  const lists = {
    verified: [],
    held: [],
    settled: [],
    changed: [],
    reads: [],
    spans: [],
    emptied: [],
    restored: [],
    records: [],
    entities: [],
    told: [],
    returns: [],
    findings: [],
  };
  return { phase, fault: '', startedAtMs, ...lists, load: 0 };
}

function add(one: Case, line: Exclude<Line, { type: 'run' }>): void {
  switch (line.type) {
    case 'verify':
      return void one.verified.push(line);
    case 'hold':
      return void one.held.push(line);
    case 'settle':
      return void one.settled.push(line);
    case 'change':
      return void one.changed.push(line);
    case 'read':
      return void one.reads.push(line);
    case 'span':
      one.fault ||= line.fault;
      return void one.spans.push(line);
    case 'emptied':
      return void one.emptied.push(line);
    case 'restored':
      return void one.restored.push(line);
    case 'record':
      return void one.records.push(line);
    case 'entity':
      return void one.entities.push(line);
    case 'told':
      return void one.told.push(line);
    case 'return':
      return void one.returns.push(line);
    case 'pulse':
      one.load = Math.max(one.load, line.load);
      return;
    case 'finding':
      return void one.findings.push(line);
    default:
      line satisfies never;
  }
}
