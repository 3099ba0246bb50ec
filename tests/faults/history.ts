import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

// One JSON line each. Times are ms of one clock, the client's: a call that ended before another began came before it.

/** One attempt of a verification. */
export type Verified = {
  type: 'verify';
  phase: number;
  /** The call that this is an attempt of; also its usage name, by which the books tell it. */
  call: string;
  from: number;
  to: number;
  /** The process that was asked. */
  at: string;
  key: string;
  /** Which text of the key: 0 the first, then one more with each rotation. */
  text: number;
  /** The access token, where it is not the run's own. */
  token?: string;
  billing?: string;
  costMicros: number;
  idempotent: boolean;
  /** What was answered; without an HTTP status nothing was, and `error` says why. */
  http?: number;
  code?: number;
  status?: string;
  reason?: string;
  usedMicros?: number;
  totalMicros?: number;
  /** The most that may be used, as it was when this was decided. */
  limitMicros?: number;
  error?: string;
};

/** One attempt of a change through the management API. */
export type Changed = {
  type: 'change';
  phase: number;
  /** The change that this is an attempt of. */
  change: string;
  from: number;
  to: number;
  at: string;
  what: ChangeKind;
  /** The entity: an id, or the name it is to have while that is not known. */
  of: string;
  /** What was given or came of it. */
  detail: Detail;
  http?: number;
  code?: number;
  error?: string;
};

export type ChangeKind =
  | 'key.create'
  | 'key.rename'
  | 'key.enable'
  | 'key.disable'
  | 'key.rotate'
  | 'key.delete'
  | 'billing.create'
  | 'billing.refill'
  | 'billing.adjust'
  | 'token.create'
  | 'token.revoke'
  | 'workspace.rename';

export type Detail = {
  name?: string;
  amountMicros?: number;
  usageName?: string;
  totalMicros?: number;
  ratePerSecond?: number;
  expiresAtMs?: number;
  /** The text that a rotation made. */
  text?: number;
};

/** A reading of the management API, which only tells that it was served. */
export type Read = { type: 'read'; phase: number; from: number; to: number; at: string; http?: number; error?: string };

/** A stretch of a phase: the fault itself, or a part of it about which more is known. */
export type Span = {
  type: 'span';
  phase: number;
  fault: string;
  what: SpanKind;
  from: number;
  to: number;
  /** For how long verification and management may be away, where the fault says. */
  verifyWithinMs?: number;
  manageWithinMs?: number;
};
export type SpanKind =
  /** From the start of the traffic to its end. */
  | 'phase'
  /** From the first context to the last repair. */
  | 'fault'
  /** Nothing that is sent to Redis meanwhile can be decided before its end. */
  | 'redis-frozen'
  /** A server that lagged took over at its end: what it was not told meanwhile may be lost. */
  | 'lagged'
  /** As above, but of what was answered it had been told everything. */
  | 'behind';

/** Redis was emptied while its outbox held the events of these calls: no others may be lost. */
export type Emptied = { type: 'emptied'; phase: number; at: number; held: string[] };

/** What the service says of a billing record once all is quiet. */
export type Record_ = {
  type: 'record';
  phase: number;
  billing: string;
  usedMicros: number;
  totalMicros: number;
  limitMicros: number;
  rows: { day: string; name: string; micros: number; events: number }[];
  refillsMicros: number[];
  /** How the service itself finds the record to be: EXACT, or what else. */
  found: string;
  /** How many events the service names as lost. */
  toldLost: number;
};

/** What the service says of a key or a workspace once all is quiet. */
export type Entity = {
  type: 'entity';
  phase: number;
  id: string;
  /** 404 and the like: it is not there. */
  http: number;
  name?: string;
  enabled?: boolean;
  deleted?: boolean;
};

/** How long a process that was killed took to be ready again. */
export type Return = { type: 'return'; phase: number; program: string; tookMs: number };

/** How much the machine had to do: processes that wanted to run, for each of its cores. */
export type Pulse = { type: 'pulse'; phase: number; at: number; load: number };

/** What did not come back in time, or was not as the fault itself demands. */
export type Finding = { type: 'finding'; phase: number; text: string };

export type Line =
  | { type: 'run'; seed: number; startedAtMs: number }
  | Verified
  | Changed
  | Read
  | Span
  | Emptied
  | Record_
  | Entity
  | Return
  | Pulse
  | Finding;

export type History = { lines: Line[]; now(): number; add(line: Line): void; close(): void };

/** Records what happens, in a file and in memory. */
export function makeHistory(file: string, seed: number): History {
  const startedAtMs = Date.now();
  const began = performance.now();
  const out = openSync(file, 'w', 0o600);
  const lines: Line[] = [];
  const self: History = {
    lines,
    now: () => Math.round((performance.now() - began) * 1000) / 1000,
    add(line) {
      lines.push(line);
      writeSync(out, `${JSON.stringify(line)}\n`);
    },
    close: () => closeSync(out),
  };
  self.add({ type: 'run', seed, startedAtMs });
  return self;
}

/** Reads the lines that a run left. */
export function readHistory(file: string): Line[] {
  const texts = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return texts.map((text) => JSON.parse(text) as Line);
}
