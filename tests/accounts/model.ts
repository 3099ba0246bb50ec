// Credits of one billing record as docs/accounts-design.md means them, simple and slow: every draw is made at once, from each
// grant, with exact integers. What decides in Redis is compared with it.

export const MOST_MICROS = 9_000_000_000_000_000n;
export const NEVER = Infinity;

export type NewGrant = {
  micros: bigint;
  priority?: number;
  beginsAt?: number;
  endsAt?: number;
  /** What is left lives on until `endsAt`, at most `most` of what no hold needs. */
  rollover?: { endsAt: number; most: bigint };
};

export type Grant = {
  id: number;
  micros: bigint;
  priority: number;
  beginsAt: number;
  endsAt: number;
  rollover: NewGrant['rollover'];
  state: 'PENDING' | 'ACTIVE' | 'ENDED' | 'VOIDED';
  used: bigint;
  expired: bigint;
  /** Kept, after its end, for holds that were open then. */
  pinned: bigint;
  /** The place of its end among all ends. */
  ended: number;
};

export type Hold = {
  id: number;
  micros: bigint;
  endsAt: number;
  onExpiry: 'release' | 'charge';
  /** Expired by release, or by a charge, or settled by a call. */
  state: 'OPEN' | 'CAPTURED' | 'RELEASED' | 'EXPIRED' | 'CHARGED';
  usage: bigint;
  /** It was open when something was last pinned. */
  old: boolean;
};

/** A call that was VALID: what it cost, or what it held. */
export type Call = { micros: bigint; hold?: Hold; isCancelled: boolean };

export type Alert = { name: string; when: { usedPercent: bigint } | { available: bigint } };

export type Settings = { allowOverages: boolean; spendCap: bigint | undefined };
export type Answer = 'VALID' | 'REFUSED' | 'TOO_LARGE' | 'CONFLICT' | 'UNKNOWN' | 'DONE';

const LATE_MS = 24 * 3_600_000;

/** A billing record. Time moves by `advance` alone; every other command happens at that time, after all that was due. */
export class Account {
  now: number;
  settings: Settings = { allowOverages: false, spendCap: undefined };
  grants: Grant[] = [];
  holds: Hold[] = [];
  calls: Call[] = [];
  used = 0n;
  /** Used beyond all grants. */
  overdrawn = 0n;
  /** Those that are not crossed. */
  armed = new Set<Alert>();
  /** The names of those that were, ever. */
  crossed: string[] = [];
  private alerts: Alert[] = [];
  private ends = 0;

  constructor(now = 0) {
    this.now = now;
  }

  get total(): bigint {
    return sum(this.begun().map(({ micros }) => micros));
  }

  get expired(): bigint {
    return sum(this.begun().map(({ expired }) => expired));
  }

  get held(): bigint {
    return sum(this.open().map(({ micros }) => micros));
  }

  get pinned(): bigint {
    return sum(this.grants.map(({ pinned }) => pinned));
  }

  /** Counted from what is left of each grant, and not from the identity that it has to fulfil. */
  get available(): bigint {
    return sum(this.drawingOrder().map(left)) - this.overdrawn - (this.held - this.pinned);
  }

  /** The most that used and held may reach. */
  get limit(): bigint {
    const cap = this.settings.spendCap ?? MOST_MICROS;
    const credits = this.total - this.expired;
    return this.settings.allowOverages || cap < credits ? cap : credits;
  }

  /** Moves time on, and does all that falls due, moment by moment. A time that lies before now changes nothing. */
  advance(to: number): void {
    for (;;) {
      const due = Math.min(...this.moments());
      if (!(due <= to)) break;
      this.now = Math.max(this.now, due);
      this.moment(due);
    }
    this.now = Math.max(this.now, to);
  }

  /** Adds a grant, which begins now unless its beginning is still to come. */
  grant({ micros, priority = 50, beginsAt = this.now, endsAt = NEVER, rollover }: NewGrant): Grant {
    const id = this.grants.length;
    const from = Math.max(beginsAt, this.now);
    const nothing = { used: 0n, expired: 0n, pinned: 0n, ended: 0 };
    const grant: Grant = { id, micros, priority, beginsAt: from, endsAt, rollover, state: 'PENDING', ...nothing };
    this.grants.push(grant);
    this.advance(this.now);
    return grant;
  }

  /** What is left of the grant is gone; what it covers of open holds stays for these. */
  voidGrant(grant: Grant): Answer {
    if (grant.state === 'ENDED') return 'CONFLICT';
    if (grant.state === 'PENDING') grant.state = 'VOIDED';
    if (grant.state === 'ACTIVE') this.end(grant, 'VOIDED');
    this.watch();
    return 'DONE';
  }

  verify(cost: bigint): Answer {
    if (!this.passes(cost)) return 'REFUSED';
    this.use(cost);
    this.calls.push({ micros: cost, isCancelled: false });
    this.watch();
    return 'VALID';
  }

  /** Other alerts than before: those that are reached already tell nothing. One that is the same as before goes on. */
  setAlerts(alerts: Alert[]): void {
    const text = ({ name, when }: Alert) => [name, ...Object.entries(when)].join();
    const before = new Map(this.alerts.map((alert) => [text(alert), alert]));
    this.alerts = alerts.map((alert) => before.get(text(alert)) ?? alert);
    const wasArmed = this.armed;
    this.armed = new Set(
      this.alerts.filter((alert) => (before.has(text(alert)) ? wasArmed.has(alert) : !this.isReached(alert))),
    );
  }

  hold(micros: bigint, expiresIn: number, onExpiry: Hold['onExpiry'] = 'release'): Hold | undefined {
    if (!this.passes(micros)) return undefined;
    const id = this.holds.length;
    const hold: Hold = { id, micros, endsAt: this.now + expiresIn, onExpiry, state: 'OPEN', usage: 0n, old: false };
    this.holds.push(hold);
    this.calls.push({ micros, hold, isCancelled: false });
    return hold;
  }

  capture(hold: Hold, usage: bigint): Answer {
    if (hold.state === 'CAPTURED') return hold.usage === usage ? 'DONE' : 'CONFLICT';
    if (hold.state === 'RELEASED') return 'CONFLICT';
    if (this.now >= hold.endsAt + LATE_MS) return 'UNKNOWN';
    const change = usage - (hold.state === 'CHARGED' ? hold.usage : 0n);
    if (this.used + change > MOST_MICROS) return 'TOO_LARGE';
    // The charge was given back already.
    if (this.used + change < 0n) return 'CONFLICT';
    if (hold.state === 'OPEN') this.settle(hold, 'CAPTURED', usage);
    else if (change < 0n) this.giveBack(-change);
    else this.use(change);
    hold.state = 'CAPTURED';
    hold.usage = usage;
    this.watch();
    return 'DONE';
  }

  release(hold: Hold): Answer {
    if (hold.state === 'OPEN') this.settle(hold, 'RELEASED', 0n);
    this.watch();
    return hold.state === 'RELEASED' || hold.state === 'EXPIRED' ? 'DONE' : 'CONFLICT';
  }

  /** Gives back what a call took, once. What it held and was captured stays; so does what was given back otherwise. */
  cancel(call: Call): Answer {
    if (call.isCancelled) return 'DONE';
    const { hold, micros } = call;
    const ofHold = (one: Hold) => (one.state === 'CHARGED' ? this.capture(one, 0n) : this.release(one));
    const answer = hold ? ofHold(hold) : this.adjust(-micros);
    call.isCancelled = answer === 'DONE';
    return answer;
  }

  extend(hold: Hold, expiresIn: number): Answer {
    if (hold.state !== 'OPEN') return 'CONFLICT';
    hold.endsAt = this.now + expiresIn;
    return 'DONE';
  }

  adjust(micros: bigint): Answer {
    if (this.used + micros < 0n) return 'CONFLICT';
    if (this.used + micros > MOST_MICROS) return 'TOO_LARGE';
    if (micros < 0n) this.giveBack(-micros);
    else this.use(micros);
    this.watch();
    return 'DONE';
  }

  /** Active grants: lower priority first, then the one that ends first, then the older. */
  drawingOrder(): Grant[] {
    return this.grants
      .filter(({ state }) => state === 'ACTIVE')
      .toSorted(
        (a, b) =>
          a.priority - b.priority || compare(a.endsAt, b.endsAt) || compare(a.beginsAt, b.beginsAt) || a.id - b.id,
      );
  }

  private begun(): Grant[] {
    return this.grants.filter(({ state, ended }) => state === 'ACTIVE' || ended > 0);
  }

  private open(): Hold[] {
    return this.holds.filter(({ state }) => state === 'OPEN');
  }

  private passes(cost: bigint): boolean {
    return cost === 0n || this.used + this.held + cost <= this.limit;
  }

  /** When something falls due. */
  *moments(): Generator<number> {
    for (const { state, beginsAt, endsAt } of this.grants) {
      if (state === 'PENDING') yield beginsAt;
      if (state === 'ACTIVE') yield endsAt;
    }
    for (const { endsAt } of this.open()) yield endsAt;
    yield NEVER;
  }

  /** Holds end, then grants end, then grants begin. */
  private moment(at: number): void {
    for (const hold of this.open().filter(({ endsAt }) => endsAt <= at)) {
      if (hold.onExpiry === 'charge') this.settle(hold, 'CHARGED', hold.micros);
      else this.settle(hold, 'EXPIRED', 0n);
    }
    // One order for all that end now: a grant that rolls over keeps its place until the others have ended too.
    const order = this.drawingOrder();
    for (const grant of order.filter(({ endsAt }) => endsAt <= at)) {
      if (grant.rollover) this.rollOver(grant, order);
      else this.end(grant, 'ENDED', order);
    }
    const beginning = this.grants.filter(({ state, beginsAt }) => state === 'PENDING' && beginsAt <= at);
    for (const grant of beginning) grant.state = 'ACTIVE';
    for (const grant of this.drawingOrder().filter((one) => beginning.includes(one))) {
      const covered = min(left(grant), this.overdrawn);
      grant.used += covered;
      this.overdrawn -= covered;
    }
    this.watch();
  }

  private isReached({ when }: Alert): boolean {
    const credits = this.total - this.expired;
    if ('available' in when) return credits - this.used <= when.available;
    return this.used * 100n >= credits * when.usedPercent;
  }

  /** Arms again what is not reached, and tells what is reached and was armed. */
  private watch(): void {
    for (const alert of this.alerts) {
      if (!this.isReached(alert)) this.armed.add(alert);
      else if (this.armed.delete(alert)) this.crossed.push(alert.name);
    }
  }

  /** What a grant covers of the holds that are not pinned elsewhere, after the grants that are drawn before it. */
  private covered(grant: Grant, order: Grant[]): bigint {
    const before = sum(order.slice(0, order.indexOf(grant)).map(left));
    return min(left(grant), max(0n, this.held - this.pinned - before));
  }

  private end(grant: Grant, state: 'ENDED' | 'VOIDED', order = this.drawingOrder()): void {
    const covered = this.covered(grant, order);
    grant.expired += left(grant) - covered;
    grant.state = state;
    grant.pinned = covered;
    grant.ended = ++this.ends;
    if (covered > 0n) for (const hold of this.open()) hold.old = true;
  }

  private rollOver(grant: Grant, order: Grant[]): void {
    const { endsAt, most } = grant.rollover!;
    const free = left(grant) - this.covered(grant, order);
    grant.expired += free - min(free, most);
    grant.endsAt = endsAt;
    grant.rollover = undefined;
  }

  private use(micros: bigint): void {
    this.used += micros;
    this.draw(micros);
  }

  private draw(micros: bigint): void {
    let rest = micros;
    for (const grant of this.drawingOrder()) {
      const part = min(left(grant), rest);
      grant.used += part;
      rest -= part;
    }
    this.overdrawn += rest;
  }

  private settle(hold: Hold, state: Exclude<Hold['state'], 'OPEN'>, usage: bigint): void {
    hold.state = state;
    hold.usage = usage;
    this.used += usage;
    let rest = usage;
    const pins = this.grants.filter(({ pinned }) => pinned > 0n).toSorted((a, b) => a.ended - b.ended);
    if (hold.old) {
      let payable = min(usage, hold.micros);
      for (const grant of pins) {
        const part = min(grant.pinned, payable);
        grant.pinned -= part;
        grant.used += part;
        payable -= part;
        rest -= part;
      }
    }
    this.draw(rest);
    // What no old hold is left to take, expires.
    let excess = this.pinned - sum(this.open().map(({ old, micros }) => (old ? micros : 0n)));
    for (const grant of pins) {
      const part = min(grant.pinned, max(0n, excess));
      grant.pinned -= part;
      grant.expired += part;
      excess -= part;
    }
  }

  /** First what is overdrawn, then active grants in reverse order of drawing, then ended ones, the latest first. */
  private giveBack(micros: bigint): void {
    this.used -= micros;
    let rest = micros;
    const overdrawn = min(this.overdrawn, rest);
    this.overdrawn -= overdrawn;
    rest -= overdrawn;
    const ended = this.grants.filter(({ ended }) => ended > 0).toSorted((a, b) => b.ended - a.ended);
    for (const grant of [...this.drawingOrder().toReversed(), ...ended]) {
      const part = min(grant.used, rest);
      grant.used -= part;
      if (grant.ended > 0) grant.expired += part;
      rest -= part;
    }
  }
}

/** What is left of a grant: not used, not expired, not pinned. */
export function left({ micros, used, expired, pinned }: Grant): bigint {
  return micros - used - expired - pinned;
}

function sum(amounts: bigint[]): bigint {
  return amounts.reduce((total, one) => total + one, 0n);
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function compare(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
