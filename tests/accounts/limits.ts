// Counters of limits as docs/accounts-design.md means them, with the arithmetic that decides in Redis, in exact integers. An
// amount is micro-credits, or a million for a request: so a changed limit keeps its count. Time is in whole units, of which
// the caller rounds now down.
import type { Limit } from '../../shared/contract/limits.ts';
import { slidingWindow, windowOf, type CalendarWindow } from '../../shared/stores/limits.ts';
import { windowAt } from '../../shared/values/calendar.ts';
import { formatCredits, parseCredits } from '../../shared/values/credits.ts';

const REQUEST = 1_000_000n;
const BASE_MICROS = 1_735_689_600_000_000n;

/** What a call took of a limit, and when. */
export type Noted = { amount: bigint; at: bigint };

/** A call that holds, since when, and what limits count of it. */
export type HeldCall = { micros: number; usageName: string; heldAt: bigint; billed: number };

/** What a sliding limit counts: a level that falls by the limit in each window, never below what was let through. */
export class SlidingCounter {
  limit: bigint;
  private readonly window: bigint;
  private level = 0n;
  private at = 0n;

  constructor(limit: bigint, window: bigint) {
    this.limit = limit;
    this.window = window;
  }

  levelAt(now: bigint): bigint {
    const fallen = this.fallen(now - this.at);
    return fallen < this.level ? this.level - fallen : 0n;
  }

  fits(amount: bigint, now: bigint): boolean {
    return this.levelAt(now) + amount <= this.limit;
  }

  /** `since`: the time of now, rounded up: what falls until the next call is never more than the time allows. */
  take(amount: bigint, now: bigint, since = now): boolean {
    if (!this.fits(amount, now)) return false;
    this.level = this.levelAt(now) + amount;
    this.at = since;
    return true;
  }

  /** Counts what a limit that only watches lets through: its level never rises above the limit. */
  watch(amount: bigint, now: bigint, since = now): void {
    const level = this.levelAt(now);
    const raised = level + amount < this.limit ? level + amount : this.limit;
    this.level = raised > level ? raised : level;
    this.at = since;
  }

  /**
   * Corrects what a hold took at a time to what was used. Given back is only what can't have fallen since then: the rest of it
   * has let others through already.
   */
  correct(held: bigint, used: bigint, heldAt: bigint, now: bigint, since = now): void {
    const level = this.levelAt(now);
    const kept = held - used - this.fallen(now - heldAt);
    if (used > held) this.level = level + used - held;
    else this.level = level - (kept < 0n ? 0n : kept < level ? kept : level);
    this.at = since;
  }

  /** What a call will take now, and until when none of that falls: what was counted before falls first. */
  note(amount: bigint, now: bigint): Noted {
    const level = this.levelAt(now);
    const room = level < this.limit ? this.limit - level : 0n;
    return { amount: amount < room ? amount : room, at: now + (level * this.window) / this.limit };
  }

  remaining(now: bigint): bigint {
    const level = this.levelAt(now);
    return level < this.limit ? this.limit - level : 0n;
  }

  private fallen(elapsed: bigint): bigint {
    // A clock that was set back gives nothing.
    return elapsed > 0n ? (this.limit * elapsed) / this.window : 0n;
  }
}

/** What a calendar limit counts: the sum of its zone's day, week or month. Time is in ms. */
class CalendarCounter {
  limit: bigint;
  private readonly window: CalendarWindow;
  private readonly timezone: string;
  private startMs = -Infinity;
  private count = 0n;

  constructor(limit: bigint, window: CalendarWindow, timezone: string) {
    this.limit = limit;
    this.window = window;
    this.timezone = timezone;
  }

  fits(amount: bigint, nowMs: number): boolean {
    this.turn(nowMs);
    return this.count + amount <= this.limit;
  }

  take(amount: bigint, nowMs: number): boolean {
    if (!this.fits(amount, nowMs)) return false;
    this.count += amount;
    return true;
  }

  /** Counts what a limit that only watches lets through. */
  watch(amount: bigint, nowMs: number): void {
    this.turn(nowMs);
    this.count += amount;
  }

  /** Corrects what a hold took, while the window that it was counted in runs. */
  correct(held: bigint, used: bigint, heldAtMs: number, nowMs: number): void {
    this.turn(nowMs);
    if (this.startAt(heldAtMs) !== this.startMs) return;
    const count = this.count + used - held;
    this.count = count < 0n ? 0n : count;
  }

  remaining(nowMs: number): bigint {
    this.turn(nowMs);
    return this.count < this.limit ? this.limit - this.count : 0n;
  }

  private startAt(atMs: number): number {
    return windowAt(this.window.unit, this.timezone, atMs, this.window.count).startMs;
  }

  /** A clock that is set back does not open the window of before again. */
  private turn(nowMs: number): void {
    const startMs = this.startAt(nowMs);
    if (startMs <= this.startMs) return;
    this.startMs = startMs;
    this.count = 0n;
  }
}

/** A limit of the model, as the script's are judged: by what counts this call. */
export class ModelLimit {
  readonly setting: Limit;
  private readonly sliding: SlidingCounter | undefined;
  private readonly calendar: CalendarCounter | undefined;

  constructor(setting: Limit) {
    this.setting = setting;
    const { per, timezone = 'UTC' } = setting;
    const window = windowOf(per);
    if ('ms' in window)
      this.sliding = new SlidingCounter(this.limit(), BigInt((window.ms * 1_000) / window.unitMicros));
    else this.calendar = new CalendarCounter(this.limit(), window, timezone);
  }

  limit(): bigint {
    const { limit } = this.setting;
    return typeof limit === 'number' ? BigInt(limit) * REQUEST : BigInt(parseCredits(limit)!);
  }

  setAmount(amount: number): void {
    const { unit } = this.setting;
    this.setting.limit = unit === 'requests' ? amount : formatCredits(amount * 333_333);
    (this.sliding ?? this.calendar)!.limit = this.limit();
  }

  amountOf({ micros, usageName }: { micros: number; usageName: string }): bigint {
    if (this.setting.usageName !== undefined && this.setting.usageName !== usageName) return 0n;
    return this.setting.unit === 'requests' ? REQUEST : BigInt(micros);
  }

  fits(amount: bigint, now: bigint): boolean {
    if (amount === 0n) return true;
    return this.sliding ? this.sliding.fits(amount, this.units(now)) : this.calendar!.fits(amount, msOf(now));
  }

  take(amount: bigint, now: bigint): void {
    if (amount === 0n) return;
    const how = this.setting.shadow ? 'watch' : 'take';
    if (this.sliding) this.sliding[how](amount, this.units(now), this.units(now, true));
    else this.calendar![how](amount, msOf(now));
  }

  /** What a call that is let through now will take; for `giveBack`. */
  note(amount: bigint, now: bigint): Noted {
    return this.sliding ? this.sliding.note(amount, this.units(now)) : { amount, at: now };
  }

  giveBack(noted: Noted, now: bigint): void {
    if (noted.amount === 0n) return;
    if (this.sliding) this.sliding.correct(noted.amount, 0n, noted.at, this.units(now), this.units(now, true));
    else this.calendar!.correct(noted.amount, 0n, msOf(noted.at), msOf(now));
  }

  /** Corrects what a hold took to what was used of it. */
  settle(hold: HeldCall, used: number, now: bigint): void {
    const { billed, heldAt } = hold;
    if (this.setting.unit === 'requests' || this.amountOf(hold) === 0n || billed === used) return;
    const [from, to] = [BigInt(billed), BigInt(used)];
    if (this.sliding) this.sliding.correct(from, to, this.units(heldAt, true), this.units(now), this.units(now, true));
    else this.calendar!.correct(from, to, msOf(heldAt), msOf(now));
  }

  /**
   * When its window began. A clock is not set back beyond it: whether a call that counts nothing has turned a window is for the
   * script alone, and a test of its own has a clock that goes back over a turn.
   */
  startOf(now: bigint): bigint {
    const { per, timezone = 'UTC' } = this.setting;
    const window = windowOf(per);
    if ('ms' in window) return 0n;
    return BigInt(windowAt(window.unit, timezone, msOf(now), window.count).startMs) * 1_000n;
  }

  remaining(now: bigint): number | string {
    const left = this.sliding ? this.sliding.remaining(this.units(now)) : this.calendar!.remaining(msOf(now));
    return this.setting.unit === 'requests' ? Number(left / REQUEST) : formatCredits(Number(left));
  }

  private units(now: bigint, up = false): bigint {
    const micros = now - BASE_MICROS;
    const unit = BigInt(slidingWindow(this.setting.per)!.unitMicros);
    return (micros + (up ? unit - 1n : 0n)) / unit;
  }
}

export function msOf(now: bigint): number {
  return Number(now / 1_000n);
}
