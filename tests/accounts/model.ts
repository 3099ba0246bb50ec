// Credits of one billing record as docs/accounts-design.md means them, simple and slow: every draw is made at once, with exact
// integers. What decides in Redis is compared with it.

export const MOST_MICROS = 9_000_000_000_000_000n;
export const NEVER = Infinity;

export type NewGrant = {
  micros: bigint;
  priority?: number;
  beginsAt?: number;
  endsAt?: number;
  /** What is left lives on until `endsAt`, at most `most` of what no hold owns. */
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
  /** Where it is drawn from, once it has begun. */
  of?: CreditClass;
};

/**
 * All grants of one priority and end: what it gave is laid over them, the older first. A grant that rolls over is a class of its own,
 * and parts those that are older than it from those that are younger; a voided one becomes a class of its own.
 */
export type CreditClass = {
  grants: Grant[];
  priority: number;
  endsAt: number;
  rollover: NewGrant['rollover'];
  rolls: boolean;
  /** The youngest grant that rolls over and is older than these. */
  parted: Grant | undefined;
  used: bigint;
  /** What open holds own of it. */
  held: bigint;
  expired: bigint;
  /** The place of its end among all ends; 0 of an open one. */
  ended: number;
  /** Of a voided grant the class that it was of, whose holds own it. */
  from?: CreditClass;
};

export type Hold = {
  id: number;
  micros: bigint;
  endsAt: number;
  onExpiry: 'release' | 'charge';
  /** Expired by release, or by a charge, or settled by a call. */
  state: 'OPEN' | 'CAPTURED' | 'RELEASED' | 'EXPIRED' | 'CHARGED';
  usage: bigint;
  /** What it drew when it opened, in drawing order: less than it reserves where that was beyond all grants. */
  owned: { of: CreditClass; micros: bigint }[];
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
  /** Of which grants have begun, also those that have ended. */
  classes: CreditClass[] = [];
  private alerts: Alert[] = [];
  private ends = 0;

  constructor(now = 0) {
    this.now = now;
  }

  get total(): bigint {
    return sum(this.classes.map(grantedBy));
  }

  get expired(): bigint {
    return sum(this.classes.map(({ expired }) => expired));
  }

  get held(): bigint {
    return sum(this.open().map(({ micros }) => micros));
  }

  /** Counted from what is left of each class, and not from the identity that it has to fulfil. */
  get available(): bigint {
    const owned = sum(this.classes.map(({ held }) => held));
    return sum(this.drawingOrder().map(leftOf)) - this.overdrawn - (this.held - owned);
  }

  /** The most that used and held may reach. */
  get limit(): bigint {
    const cap = this.settings.spendCap ?? MOST_MICROS;
    const credits = this.total - this.expired;
    return this.settings.allowOverages || cap < credits ? cap : credits;
  }

  /** Moves time on, and does all that falls due, moment by moment. A time that lies before now changes nothing. */
  advance(to: number): 'DONE' {
    for (;;) {
      const due = Math.min(...this.moments());
      if (!(due <= to)) break;
      this.now = Math.max(this.now, due);
      this.moment(due);
    }
    this.now = Math.max(this.now, to);
    return 'DONE';
  }

  /** Adds a grant, which begins now unless its beginning is still to come. */
  grant({ micros, priority = 50, beginsAt = this.now, endsAt = NEVER, rollover }: NewGrant): 'DONE' {
    const id = this.grants.length;
    const from = Math.max(beginsAt, this.now);
    const grant: Grant = { id, micros, priority, beginsAt: from, endsAt, rollover, state: 'PENDING' };
    this.grants.push(grant);
    return this.advance(this.now);
  }

  /** What is left of the grant is gone; what holds own of it stays with them. */
  voidGrant(grant: Grant): Answer {
    if (grant.state === 'ENDED') return 'CONFLICT';
    if (grant.state === 'ACTIVE') this.end(this.alone(grant));
    grant.state = 'VOIDED';
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
  setAlerts(alerts: Alert[]): 'DONE' {
    const text = ({ name, when }: Alert) => [name, ...Object.entries(when)].join();
    const before = new Map(this.alerts.map((alert) => [text(alert), alert]));
    this.alerts = alerts.map((alert) => before.get(text(alert)) ?? alert);
    const wasArmed = this.armed;
    this.armed = new Set(
      this.alerts.filter((alert) => (before.has(text(alert)) ? wasArmed.has(alert) : !this.isReached(alert))),
    );
    return 'DONE';
  }

  set({ allowOverages, spendCap }: Settings): 'DONE' {
    this.settings = { allowOverages, spendCap };
    return 'DONE';
  }

  hold(micros: bigint, expiresIn: number, onExpiry: Hold['onExpiry']): Answer {
    if (!this.passes(micros)) return 'REFUSED';
    const id = this.holds.length;
    const hold: Hold = { id, micros, endsAt: this.now + expiresIn, onExpiry, state: 'OPEN', usage: 0n, owned: [] };
    let rest = micros;
    for (const of of this.drawingOrder()) {
      const part = min(leftOf(of), rest);
      if (part > 0n) hold.owned.push({ of, micros: part });
      of.held += part;
      rest -= part;
    }
    this.holds.push(hold);
    this.calls.push({ micros, hold, isCancelled: false });
    return 'VALID';
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
    this.cover();
    this.watch();
    return 'DONE';
  }

  release(hold: Hold): Answer {
    if (hold.state === 'OPEN') this.settle(hold, 'RELEASED', 0n);
    this.cover();
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

  /** Open classes: lower priority first, then the one that ends first, then the older. */
  drawingOrder(): CreditClass[] {
    const age = ({ grants: [first] }: CreditClass) => (first ? first.beginsAt * 1_000 + first.id : 0);
    return this.classes
      .filter(({ ended }) => ended === 0)
      .toSorted((a, b) => a.priority - b.priority || compare(a.endsAt, b.endsAt) || age(a) - age(b));
  }

  private open(): Hold[] {
    return this.holds.filter(({ state }) => state === 'OPEN');
  }

  private passes(cost: bigint): boolean {
    return cost === 0n || this.used + this.held + cost <= this.limit;
  }

  /** When something falls due. */
  *moments(): Generator<number> {
    for (const { state, beginsAt } of this.grants) if (state === 'PENDING') yield beginsAt;
    for (const { endsAt, grants } of this.drawingOrder()) if (grants.length > 0) yield endsAt;
    for (const { endsAt } of this.open()) yield endsAt;
    yield NEVER;
  }

  /** Holds end, then grants end, then grants begin. */
  private moment(at: number): void {
    const ending = this.open().filter(({ endsAt }) => endsAt <= at);
    // What is released is there for what is charged.
    for (const hold of ending) if (hold.onExpiry === 'release') this.settle(hold, 'EXPIRED', 0n);
    for (const hold of ending) if (hold.onExpiry === 'charge') this.settle(hold, 'CHARGED', hold.micros);
    this.cover();
    for (const one of this.drawingOrder().filter(({ endsAt }) => endsAt <= at)) {
      if (one.rollover) this.rollOver(one);
      else this.end(one);
    }
    const beginning = this.grants.filter(({ state, beginsAt }) => state === 'PENDING' && beginsAt <= at);
    for (const grant of beginning.toSorted((a, b) => a.beginsAt - b.beginsAt || a.id - b.id)) this.begin(grant);
    this.cover();
    this.watch();
  }

  /** What is there pays for what is overdrawn. */
  private cover(): void {
    for (const one of this.drawingOrder()) {
      const covered = min(leftOf(one), this.overdrawn);
      one.used += covered;
      this.overdrawn -= covered;
    }
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

  private begin(grant: Grant): void {
    const { priority, endsAt, rollover } = grant;
    // Those that rolled over have another end since.
    const rolling = this.grants.filter(
      (one) => one.rollover && one.of && one.priority === priority && endsOf(one).includes(endsAt),
    );
    const parted = rolling.toSorted((a, b) => a.beginsAt - b.beginsAt || a.id - b.id).at(-1);
    let of = this.drawingOrder().find(
      (one) => !rollover && !one.rolls && one.parted === parted && one.priority === priority && one.endsAt === endsAt,
    );
    if (!of) {
      const nothing = { used: 0n, held: 0n, expired: 0n, ended: 0 };
      of = { grants: [], priority, endsAt, rollover, rolls: rollover !== undefined, parted, ...nothing };
      this.classes.push(of);
    }
    of.grants.push(grant);
    Object.assign(grant, { of, state: 'ACTIVE' });
  }

  /** A grant that is voided becomes a class of its own, with its part of what its class gave, and of what holds own of it. */
  private alone(grant: Grant): CreditClass {
    const of = grant.of!;
    const { used, held, expired } = partOf(grant);
    Object.assign(of, { used: of.used - used, held: of.held - held, expired: of.expired - expired });
    of.grants.splice(of.grants.indexOf(grant), 1);
    const own = { ...of, grants: [grant], used, held, expired, from: of };
    this.classes.push(own);
    grant.of = own;
    return own;
  }

  private end(one: CreditClass): void {
    one.expired += leftOf(one);
    one.ended = ++this.ends;
    for (const grant of one.grants) grant.state = 'ENDED';
  }

  private rollOver(one: CreditClass): void {
    const { endsAt, most } = one.rollover!;
    one.expired += leftOf(one) - min(leftOf(one), most);
    one.endsAt = endsAt;
    one.rollover = undefined;
  }

  private use(micros: bigint): void {
    this.used += micros;
    this.draw(micros);
  }

  private draw(micros: bigint): void {
    let rest = micros;
    for (const one of this.drawingOrder()) {
      const part = min(leftOf(one), rest);
      one.used += part;
      rest -= part;
    }
    this.overdrawn += rest;
  }

  private settle(hold: Hold, state: Exclude<Hold['state'], 'OPEN'>, usage: bigint): void {
    hold.state = state;
    hold.usage = usage;
    this.used += usage;
    let rest = usage;
    for (const { of, micros } of hold.owned) {
      let part = micros;
      // What was voided of a class since goes first, whichever hold owned it.
      for (const one of [...this.classes.filter(({ from, held }) => from === of && held > 0n), of]) {
        const owned = one === of ? part : min(one.held, part);
        const paid = min(owned, rest);
        one.held -= owned;
        one.used += paid;
        if (one.ended > 0) one.expired += owned - paid;
        part -= owned;
        rest -= paid;
      }
    }
    this.draw(rest);
  }

  /** First what is overdrawn, then active grants in reverse order of drawing, then ended ones, the latest first. */
  private giveBack(micros: bigint): void {
    this.used -= micros;
    let rest = micros;
    const overdrawn = min(this.overdrawn, rest);
    this.overdrawn -= overdrawn;
    rest -= overdrawn;
    const ended = this.classes.filter((one) => one.ended > 0).toSorted((a, b) => b.ended - a.ended);
    for (const one of [...this.drawingOrder().toReversed(), ...ended]) {
      const part = min(one.used, rest);
      one.used -= part;
      if (one.ended > 0) one.expired += part;
      rest -= part;
    }
  }
}

/** What a grant gave, what holds own of it, and what of it expired: what its class did, laid over its grants in this order. */
export function partOf(grant: Grant): { used: bigint; held: bigint; expired: bigint } {
  const { of, micros } = grant;
  if (!of) return { used: 0n, held: 0n, expired: 0n };
  const { used, held } = of;
  const before = sum(of.grants.slice(0, of.grants.indexOf(grant)).map((one) => one.micros));
  const overlap = (from: bigint, to: bigint) => max(0n, min(to, before + micros) - max(from, before));
  // Of an open one that is what did not roll over, from its end.
  const expired = overlap(grantedBy(of) - of.expired, grantedBy(of));
  return { used: overlap(0n, used), held: overlap(used, used + held), expired };
}

function grantedBy({ grants }: CreditClass): bigint {
  return sum(grants.map(({ micros }) => micros));
}

/** What is left of a class: not used, not expired, and owned by no hold. */
function leftOf(one: CreditClass): bigint {
  return grantedBy(one) - one.used - one.held - one.expired;
}

function endsOf({ endsAt, rollover }: Grant): number[] {
  return [endsAt, rollover!.endsAt];
}

export function sum(amounts: bigint[]): bigint {
  return amounts.reduce((total, one) => total + one, 0n);
}

export function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

export function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function compare(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
