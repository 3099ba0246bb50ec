import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

// The lines of a history, as JSON. Times are ms of the client's clock: a call that ended before another began came before it.

/** One attempt of a verification. */
export type Verified = {
  type: 'verify';
  phase: number;
  /** The call that this attempt belongs to; also its usage name, by which the books show it. */
  call: string;
  from: number;
  to: number;
  /** The process that was called. */
  at: string;
  key: string;
  /** Which secret of the key: 0 for the first, one more with each rotation. */
  secretIndex: number;
  /** The access token, if it is not the run's own. */
  token?: string;
  billing?: string;
  costMicros: number;
  idempotent: boolean;
  /** The answer. Without an HTTP status there was none, and `error` says why. */
  http?: number;
  code?: number;
  status?: string;
  reason?: string;
  usedMicros?: number;
  heldMicros?: number;
  totalMicros?: number;
  /** The record's limit when this was decided. */
  limitMicros?: number;
  /** The limit over a window that refused it. */
  limitedBy?: string;
  error?: string;
};

/** One attempt to hold credits. */
export type Held = {
  type: 'hold';
  phase: number;
  /** The hold that this attempt asks for; also its usage name, by which the books show what it did cost. */
  call: string;
  from: number;
  to: number;
  at: string;
  key: string;
  billing: string;
  micros: number;
  forMs: number;
  onExpiry: 'release' | 'charge';
  /** Has an Idempotency-Key: repeated, it answers the same hold. */
  idempotent: boolean;
  http?: number;
  code?: number;
  status?: string;
  /** The id of the hold, where there is one. */
  hold?: string;
  error?: string;
};

/** One attempt to capture, release or extend a hold. */
export type Settled = {
  type: 'settle';
  phase: number;
  call: string;
  from: number;
  to: number;
  at: string;
  billing: string;
  what: 'capture' | 'release' | 'extend';
  /** Of a capture, what the call did cost. */
  micros?: number;
  http?: number;
  code?: number;
  error?: string;
};

/** One attempt of a change through the management API. */
export type Changed = {
  type: 'change';
  phase: number;
  /** The change that this attempt belongs to. */
  change: string;
  from: number;
  to: number;
  at: string;
  what: ChangeKind;
  /** The id of the entity; empty while it is not known. */
  of: string;
  /** What was sent, or came back. */
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
  | 'grant.create'
  | 'grant.void'
  | 'schedule.create'
  | 'token.create'
  | 'token.revoke'
  | 'workspace.rename';

export type Detail = {
  name?: string;
  amountMicros?: number;
  usageName?: string;
  totalMicros?: number;
  ratePerSecond?: number;
  limits?: WindowLimit[];
  expiresAtMs?: number;
  /** Which secret of the key a rotation made. */
  secretIndex?: number;
};

/** A limit over a window: of so many requests, or micro-credits. */
export type WindowLimit = {
  name: string;
  unit: 'requests' | 'credits';
  most: number;
  per: 'second' | 'minute' | 'day';
};

/** A read through the management API, recorded only to show that it was served. */
export type Read = { type: 'read'; phase: number; from: number; to: number; at: string; http?: number; error?: string };

/** A span of a phase: the fault itself, or a part of it about which more is known. */
export type Span = {
  type: 'span';
  phase: number;
  fault: string;
  what: SpanKind;
  from: number;
  to: number;
  /** For how long verification and management may be unavailable, if the fault says. */
  verifyWithinMs?: number;
  manageWithinMs?: number;
  /** The record that it concerns alone. */
  billing?: string;
};
export type SpanKind =
  /** From the start of the traffic to its end. */
  | 'phase'
  /** From the fault's first action to its last repair. */
  | 'fault'
  /** No call that is sent during it can be decided before its end. */
  | 'redis-frozen'
  /** A lagging server took over at its end: what it did not receive during it may be lost. */
  | 'lagged'
  /** As above, but the server had received everything that was answered. */
  | 'behind'
  /** The counters of one record can't be read. */
  | 'poisoned';

/** Redis was emptied while its outbox held the events of these calls: no others may be lost. */
export type Emptied = { type: 'emptied'; phase: number; at: number; held: string[] };

/** Everything was put back to a backup: what was answered since it began may be lost, and nothing before. */
export type Restored = { type: 'restored'; phase: number; backupFrom: number; at: number };

/** What the service says of a billing record once the pipeline is drained. */
export type Record_ = {
  type: 'record';
  phase: number;
  billing: string;
  usedMicros: number;
  totalMicros: number;
  limitMicros: number;
  rows: { day: string; name: string; micros: number; events: number }[];
  refillsMicros: number[];
  /** The status of the service's own reconciliation: EXACT, or something else. */
  found: string;
  /** How many events the service reports as lost. */
  reportedLost: number;
  heldMicros: number;
  expiredMicros: number;
  availableMicros: number;
  /** Of a record with grants that end: all its grants, and by how much they differ from the balance, if that was proved. */
  grants?: Granted[];
  proofMicros?: number;
  /** What finance is told of it; absent where the service did not say. */
  statement?: StatementLine;
};

/** Used credits of a record in its line of the statements of all its days, and its usage in the same days. */
export type StatementLine = {
  openingMicros: number;
  /** Usage, adjustments, and what was late. */
  movedMicros: number;
  closingMicros: number;
  usageMicros: number;
  proof: string;
};

/** A grant as the service lists it. */
export type Granted = {
  id: string;
  name: string;
  state: string;
  micros: number;
  usedMicros: number;
  expiredMicros: number;
  remainingMicros: number;
};

/** What the service says of a key or a workspace once the pipeline is drained. */
export type Entity = {
  type: 'entity';
  phase: number;
  id: string;
  /** The status of the answer; 404 if it does not exist. */
  http: number;
  name?: string;
  enabled?: boolean;
  deleted?: boolean;
};

/** What the webhook of a phase's workspace was told of what happened since it was made. */
export type Told = { type: 'told'; phase: number; since: number; events: Happened[] };
/** What a webhook is told of; of a hold, its event. */
export type Happened = { type: string; subject: string };

/** How long a process that was killed took to be ready again, and how long of that it waited for a core. */
export type Return = { type: 'return'; phase: number; program: string; tookMs: number; waitedMs: number };

/** The load of the machine: processes that wanted to run, for each core. */
export type Pulse = { type: 'pulse'; phase: number; at: number; load: number };

/** Something that did not recover in time, or did not meet what the fault itself demands. */
export type Finding = { type: 'finding'; phase: number; text: string };

export type Line =
  | { type: 'run'; seed: number; startedAtMs: number }
  | Verified
  | Held
  | Settled
  | Changed
  | Read
  | Span
  | Emptied
  | Restored
  | Record_
  | Entity
  | Told
  | Return
  | Pulse
  | Finding;

export type History = { startedAtMs: number; lines: Line[]; now(): number; add(line: Line): void; close(): void };

/** Records the lines of a run, in a file and in memory. */
export function makeHistory(file: string, seed: number): History {
  const startedAtMs = Date.now();
  const began = performance.now();
  const out = openSync(file, 'w', 0o600);
  const lines: Line[] = [];
  const self: History = {
    startedAtMs,
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

/** Reads the lines of a run from its file. */
export function readHistory(file: string): Line[] {
  const secrets = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return secrets.map((text) => JSON.parse(text) as Line);
}
