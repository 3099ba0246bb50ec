import { tracePart } from '../events/carried-trace.ts';
import { packFields, readFields } from '../stores/fields.ts';
import type { HoldFields } from './hold-id.ts';

// What is sent to capture.lua and what it answers, as script-protocol.ts says it of verify.lua.

/** One call of capture.lua, packed. */
export const captureFields = [
  /** capture, release or extend. */
  'what',
  /** Used micro-credits, or for how many ms the hold is extended from now on. */
  'amount',
  /** Of the hold, as its id says it (hold-id.ts). */
  'id',
  'epoch',
  /** What was answered with the settings of the record that the caller keeps; empty without any. */
  'known',
  'billingId',
  /** What its line has behind its id: nothing where the call is not traced. */
  'trace',
  /** The rest of what the hold's id says. */
  'micros',
  'endsAtMs',
  'onExpiry',
  'openedMs',
  'keyId',
  'usageName',
] as const;

/**
 * What it answers to a call, its fields between `\x1f`; and after them, as an element of its own, the settings of the record: empty
 * where the caller keeps them.
 */
export const settledFields = [
  /** OK; or why nothing was done: CONFLICT, TOO_LARGE, UNKNOWN, AGAIN, ABSENT, UNSETTLED, OUTBOX_FULL, CLOSED, LATE. */
  'status',
  /** `1` of a late capture; of CONFLICT how the hold was settled, of UNSETTLED the error. */
  'detail',
  /** Used, held, total and expired micro-credits of the record, with spaces between. */
  'amounts',
  'endsAtMs',
  /** With it the caller keeps the settings, and sends it along the next time; empty: it must not. */
  'known',
] as const;

/** An answer of the capture script to one call. */
export type CaptureAnswer = Record<(typeof settledFields)[number], string> & { settings: string };

/** What is done to a hold. */
export type What = 'capture' | 'release' | 'extend';
type Settling = { what: What; amount: number; known: string; trace: string };
type Hold = Omit<HoldFields, 'shard' | 'meter'>;

/** Packs a call of the capture script for a hold. */
export function packCapture(asked: Settling, hold: Hold): string {
  return packFields(captureFields, { ...hold, ...asked, trace: tracePart(asked.trace) });
}

/** Reads what the capture script answered to so many calls. */
export function readCaptureAnswers(answer: readonly string[], calls: number): CaptureAnswer[] {
  return Array.from({ length: calls }, (_, i) => {
    const [text = '', settings = ''] = [answer[2 + 2 * i], answer[3 + 2 * i]];
    return { ...readFields(settledFields, text, '\x1f'), settings };
  });
}
