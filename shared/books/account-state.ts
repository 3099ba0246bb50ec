import { END } from '../stores/fields.ts';

// What the account of a billing record says of its classes of credits (docs/accounts-design.md).

/** A class that has not ended: what of it is still there, and what it gave until the last turn. */
export type OpenClass = { ref: string; endsAtMs: number; grantedMicros: number; gaveMicros: number };

/** A class that has ended, or a grant that was voided (`<class>/<grant>`), in the last day: what it gave, and keeps for holds. */
export type EndedClass = { ref: string; atMs: number; usedMicros: number; heldMicros: number };

/** The state of an account after a turn. */
export type AccountState = {
  /** The number of the turn. */
  number: number;
  /** Of the settings that were taken in. */
  version: number;
  /** What was used and held beyond what classes and pins say. */
  usedAtTurn: number;
  overdrawnMicros: number;
  pinnedMicros: number;
  /** In drawing order. */
  classes: OpenClass[];
  ended: EndedClass[];
  /** What was given back of classes that are forgotten. */
  returnedMicros: number;
};

/** The version of the settings that the account of such a text took in. */
export function versionTaken(text: string): number {
  return Number(text.split(END, 2)[1]);
}

/** Reads the field `t` of an account in Redis, which is the state of a turn's line too. */
export function readAccountState(text: string): AccountState {
  const fields = text.split(END);
  let at = 0;
  const next = () => fields[at++] ?? '';
  const number = () => Number(next());
  const [turn, version, , usedAtTurn, overdrawnMicros] = Array.from({ length: 7 }, number) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const [classCount, pinCount, pendingCount, endedCount] = [number(), number(), number(), number()];
  // The id of the turn's line.
  next();
  const classes = Array.from({ length: classCount }, (): OpenClass => {
    const [ref = '', , endsAtMs, , , , granted, gave] = fields.slice(at, at + CLASS_FIELDS);
    at += CLASS_FIELDS;
    return { ref, endsAtMs: Number(endsAtMs), grantedMicros: Number(granted), gaveMicros: Number(gave) };
  });
  const pins = Array.from({ length: pinCount }, () => ({ ref: next(), micros: number() }));
  at += pendingCount * (CLASS_FIELDS + 2);
  const all = Array.from({ length: endedCount }, () => {
    const [ref = '', , atMs, used, held] = fields.slice(at, at + ENDED_FIELDS);
    at += ENDED_FIELDS;
    return { ref, atMs: Number(atMs), usedMicros: Number(used), heldMicros: Number(held) };
  });
  return {
    number: turn,
    version,
    usedAtTurn,
    overdrawnMicros,
    pinnedMicros: pins.reduce((sum, { micros }) => sum + micros, 0),
    classes,
    ended: all.filter(({ ref }) => ref !== FORGOTTEN),
    returnedMicros: 0 - (all.find(({ ref }) => ref === FORGOTTEN)?.usedMicros ?? 0),
  };
}

/** What each open class gave until now: what was used since the last turn is laid over them in drawing order. */
export function gaveUntilNow(
  { classes, usedAtTurn, overdrawnMicros }: AccountState,
  usedMicros: number,
): Map<string, number> {
  const drawnSince = usedMicros - usedAtTurn;
  // As the scripts fold it: what was given back of usage that Redis has lost was drawn then.
  const repaid = Math.max(Math.min(drawnSince, -overdrawnMicros), Math.min(drawnSince, 0));
  let drawn = drawnSince - repaid;
  return new Map(
    classes.map(({ ref, grantedMicros, gaveMicros }) => {
      const part = Math.min(grantedMicros - gaveMicros, drawn);
      drawn -= part;
      return [ref, gaveMicros + part];
    }),
  );
}

/** The state once a grant of a class begins: it pays first what was used beyond all classes. */
export function withGrant(state: AccountState, usedMicros: number, ref: string, micros: number): AccountState {
  const gave = gaveUntilNow(state, usedMicros);
  const classes = state.classes.map((one) => ({ ...one, gaveMicros: gave.get(one.ref)! }));
  const given = classes.reduce((sum, one, i) => sum + one.gaveMicros - state.classes[i]!.gaveMicros, 0);
  const overdrawn = state.overdrawnMicros + usedMicros - state.usedAtTurn - given;
  const covered = Math.max(0, Math.min(micros, overdrawn));
  const known = classes.find((one) => one.ref === ref);
  if (known) {
    known.grantedMicros += micros;
    known.gaveMicros += covered;
  } else classes.push({ ref, endsAtMs: 0, grantedMicros: micros, gaveMicros: covered });
  return { ...state, usedAtTurn: usedMicros, overdrawnMicros: overdrawn - covered, classes };
}

const CLASS_FIELDS = 8;
const ENDED_FIELDS = 5;
const FORGOTTEN = '-';
