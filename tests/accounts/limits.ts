// Limits as docs/accounts-design.md means them, with the arithmetic that decides in Redis, in exact integers. An amount is
// micro-credits, or a million for a request: so a changed limit keeps its count. Time is in µs, or in the whole units of a window.
import type { Limit } from '../../shared/contract/limits.ts';
import { windowOf, type CalendarWindow, type SlidingWindow } from '../../shared/stores/limits.ts';
import { windowAt } from '../../shared/values/calendar.ts';
import { formatCredits, parseCredits } from '../../shared/values/credits.ts';
import { max, min } from './model.ts';

const REQUEST = 1_000_000n;
const BASE_MICROS = 1_735_689_600_000_000n;

/** What a call took of a limit, and when: of one that slides, in its units. */
export type Noted = { amount: bigint; at: bigint };

/** A call that holds, since when, and what limits count of it. */
export type HeldCall = { micros: number; usageName: string; heldAt: bigint; billed: number };

/**
 * What a limit counts: a level that falls by the limit in each sliding window, never below what was let through, or to nothing where a
 * window of the calendar ends.
 */
export class ModelLimit {
  readonly setting: Limit;
  private readonly sliding: SlidingWindow | undefined;
  private level = 0n;
  /** Since when it falls, in units, which round up: what falls until the next call is never more than the time allows. Else its window. */
  private at = 0n;

  constructor(setting: Limit) {
    this.setting = setting;
    const window = windowOf(setting.per);
    this.sliding = 'ms' in window ? window : undefined;
  }

  limit(): bigint {
    const { limit } = this.setting;
    return typeof limit === 'number' ? BigInt(limit) * REQUEST : BigInt(parseCredits(limit)!);
  }

  setAmount(amount: number): void {
    this.setting.limit = this.setting.unit === 'requests' ? amount : formatCredits(amount * 333_333);
  }

  amountOf({ micros, usageName }: { micros: number; usageName: string }): bigint {
    if (this.setting.usageName !== undefined && this.setting.usageName !== usageName) return 0n;
    return this.setting.unit === 'requests' ? REQUEST : BigInt(micros);
  }

  fits(amount: bigint, now: bigint): boolean {
    return amount === 0n || this.levelAt(now) + amount <= this.limit();
  }

  take(amount: bigint, now: bigint): void {
    if (amount === 0n) return;
    const level = this.levelAt(now);
    // What a sliding one that only watches lets through never raises its level above the limit.
    const most = this.setting.shadow && this.sliding ? max(level, this.limit()) : level + amount;
    this.set(min(level + amount, most), now);
  }

  /** What a call will take now, and until when none of that falls: what was counted before falls first. For `giveBack`. */
  note(amount: bigint, now: bigint): Noted {
    if (!this.sliding) return { amount, at: now };
    const level = this.levelAt(now);
    const room = max(0n, this.limit() - level);
    return { amount: min(amount, room), at: this.units(now) + (level * this.length()) / this.limit() };
  }

  giveBack({ amount, at }: Noted, now: bigint): void {
    if (amount > 0n) this.correct(amount, 0n, at, now);
  }

  /** Corrects what a hold took to what was used of it. */
  settle(hold: HeldCall, used: number, now: bigint): void {
    const { billed, heldAt } = hold;
    if (this.setting.unit === 'requests' || this.amountOf(hold) === 0n || billed === used) return;
    this.correct(BigInt(billed), BigInt(used), this.sliding ? this.units(heldAt, true) : heldAt, now);
  }

  remaining(now: bigint): number | string {
    const left = max(0n, this.limit() - this.levelAt(now));
    return this.setting.unit === 'requests' ? Number(left / REQUEST) : formatCredits(Number(left));
  }

  /**
   * When its window began. A clock is not set back beyond it: whether a call that counts nothing has begun a window is for the
   * script alone, and a test of its own has a clock that goes back over a window.
   */
  startOf(now: bigint): bigint {
    if (this.sliding) return 0n;
    const { per, timezone = 'UTC' } = this.setting;
    const { unit, count } = windowOf(per) as CalendarWindow;
    return BigInt(windowAt(unit, timezone, msOf(now), count).startMs) * 1_000n;
  }

  /**
   * Given back is only what can't have fallen since it was held: the rest of it has let others through already. Of a window of the
   * calendar all of it, while that goes on.
   */
  private correct(held: bigint, used: bigint, heldAt: bigint, now: bigint): void {
    const level = this.levelAt(now);
    if (!this.sliding) {
      if (this.startOf(heldAt) === max(this.at, this.startOf(now))) this.set(max(0n, level + used - held), now);
      return;
    }
    const kept = held - used - this.fallen(this.units(now) - heldAt);
    this.set(used > held ? level + used - held : level - max(0n, min(kept, level)), now);
  }

  private levelAt(now: bigint): bigint {
    // A clock that is set back does not open the window of before again.
    if (!this.sliding) return this.startOf(now) > this.at ? 0n : this.level;
    return max(0n, this.level - this.fallen(this.units(now) - this.at));
  }

  private set(level: bigint, now: bigint): void {
    this.level = level;
    this.at = this.sliding ? this.units(now, true) : max(this.at, this.startOf(now));
  }

  private fallen(elapsed: bigint): bigint {
    // A clock that was set back gives nothing.
    return elapsed > 0n ? (this.limit() * elapsed) / this.length() : 0n;
  }

  /** How long its window is, in its units. */
  private length(): bigint {
    return BigInt((this.sliding!.ms * 1_000) / this.sliding!.unitMicros);
  }

  private units(now: bigint, up = false): bigint {
    const unit = BigInt(this.sliding!.unitMicros);
    return (now - BASE_MICROS + (up ? unit - 1n : 0n)) / unit;
  }
}

export function msOf(now: bigint): number {
  return Number(now / 1_000n);
}
