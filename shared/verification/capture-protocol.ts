import { packFields, readFields } from '../stores/fields.ts';

// What is sent to capture.lua and what it answers, as script-protocol.ts says it of verify.lua.

/** One call of capture.lua, packed. */
export const captureFields = [
  /** capture, release or extend. */
  'what',
  /** Used micro-credits, or for how many ms the hold is extended from now on. */
  'amount',
  /** What its line has behind its id: nothing where the call is not traced. */
  'trace',
  /** What the hold's id says (hold-id.ts). */
  'id',
  'micros',
  'endsAtMs',
  'onExpiry',
  'turn',
  'openedMs',
  'epoch',
  'keyId',
  'usageName',
] as const;

/** What it answers to a call, its fields between `\x1f`; and after them, as an element of its own, the settings of the record. */
export const settledFields = [
  /** OK; or why nothing was done: CONFLICT, TOO_LARGE, UNKNOWN, AGAIN, ABSENT, UNSETTLED, OUTBOX_FULL, CLOSED, LATE. */
  'status',
  /** `1` of a late capture; of CONFLICT how the hold was settled, of UNSETTLED the error. */
  'detail',
  /** Used, held, total and expired micro-credits of the record, with spaces between. */
  'amounts',
  'endsAtMs',
] as const;

/** An answer of the capture script to one call. */
export type CaptureAnswer = Record<(typeof settledFields)[number], string> & { settings: string };

/** Packs a call of the capture script. */
export function packCapture(values: Readonly<Record<(typeof captureFields)[number], string | number>>): string {
  return packFields(captureFields, values);
}

/** Reads what the capture script answered to so many calls. */
export function readCaptureAnswers(answer: readonly string[], calls: number): CaptureAnswer[] {
  return Array.from({ length: calls }, (_, i) => {
    const [text = '', settings = ''] = [answer[2 + 2 * i], answer[3 + 2 * i]];
    return { ...readFields(settledFields, text, '\x1f'), settings };
  });
}
