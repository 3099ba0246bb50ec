import { decode } from '@msgpack/msgpack';
import { END } from '../stores/fields.ts';
import { chunks } from '../values/chunks.ts';

// What the account of a billing record says of its classes of credits (docs/accounts-design.md).

/** What a class gave, and what open holds own of it. */
export type ClassUse = { usedMicros: number; heldMicros: number };

/** A class that has not ended; `grantedMicros`: what of it is used, owned by holds, or left. */
export type OpenClass = ClassUse & { number: number; grantedMicros: number };

/** A class that has ended, or a grant that was voided, in the last day. */
export type EndedClass = ClassUse & { number: number; atMs: number };

/** The state of an account. */
export type AccountState = {
  /** Of the settings that were taken in. */
  version: number;
  /** Used beyond all classes. */
  overdrawnMicros: number;
  /** In drawing order. */
  classes: OpenClass[];
  ended: EndedClass[];
};

/** What calls go by, the field `u` of an account (lua/parts/account.lua). */
export type HotAccount = {
  usedMicros: number;
  heldMicros: number;
  totalMicros: number;
  expiredMicros: number;
  /** The most that may be used and held. */
  limitMicros: number;
  /** When something of it falls due. */
  untilMs: number;
  overdrawnMicros: number;
  /** In drawing order. */
  classes: { number: number; leftMicros: number; usedMicros: number }[];
};

/** Reads the field `u` of an account in Redis; undefined where that is no account. Of a damaged one numbers are NaN. */
export function readHotAccount(text: Buffer | undefined): HotAccount | undefined {
  if (text?.[0] !== '@'.charCodeAt(0)) return undefined;
  const at = text.indexOf(END) + 1;
  const count = (text.length - at) / 8;
  const isWhole = (count - HOT_VALUES) % 3 === 0;
  const values = Array.from({ length: isWhole ? count : 0 }, (_, i) => text.readDoubleLE(at + 8 * i));
  const value = (i: number) => values[i] ?? NaN;
  const amounts = { usedMicros: value(0), heldMicros: value(1), totalMicros: value(2), expiredMicros: value(3) };
  const classes = chunks(values.slice(HOT_VALUES), 3).map(([number = NaN, leftMicros = NaN, used = NaN]) => {
    return { number, leftMicros, usedMicros: used };
  });
  return { ...amounts, limitMicros: value(4), untilMs: value(5), overdrawnMicros: value(7), classes };
}

/** Reads the state of an account, of its fields `u` and `t` (lua/parts/account-state.lua). Throws where that is damaged. */
export function readAccountState(hot: HotAccount, text: Buffer | undefined): AccountState {
  const { overdrawnMicros } = hot;
  if (!text) return { version: 0, overdrawnMicros, classes: [], ended: [] };
  const [version, , open, , ended] = decode(text) as [number, number, [string, ...number[]][], unknown, number[][]];
  return {
    version,
    overdrawnMicros,
    classes: open.map((values, i): OpenClass => {
      const { number, leftMicros, usedMicros } = hot.classes[i]!;
      const grantedMicros = values.at(-1) as number;
      return { number, grantedMicros, usedMicros, heldMicros: grantedMicros - leftMicros - usedMicros };
    }),
    ended: ended.map(([number = 0, , atMs = 0, , usedMicros = 0, heldMicros = 0]): EndedClass => {
      return { number, atMs, usedMicros, heldMicros };
    }),
  };
}

/** The state once a grant of a class begins: it pays first what was used beyond all classes. */
export function withGrant(state: AccountState, number: number, micros: number): AccountState {
  const covered = Math.max(0, Math.min(micros, state.overdrawnMicros));
  const before = state.classes.find((one) => one.number === number);
  const { grantedMicros, usedMicros, heldMicros } = before ?? { grantedMicros: 0, usedMicros: 0, heldMicros: 0 };
  const grown = { number, grantedMicros: grantedMicros + micros, usedMicros: usedMicros + covered, heldMicros };
  const others = state.classes.filter((one) => one !== before);
  return { ...state, overdrawnMicros: state.overdrawnMicros - covered, classes: [...others, grown] };
}

const HOT_VALUES = 9;
