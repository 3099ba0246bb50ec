import { END } from '../../shared/stores/fields.ts';

/** A line of the outbox, as a test reads it. */
export type Line = {
  kind: string;
  id: string;
  cost: number;
  timeMs: number;
  used: number;
  held: number;
  sequence: number;
  epoch: number;
  /** Of each alert that it crossed the name, and by which arming. */
  crossed: { name: string; armed: string }[];
  /** Of a line of a hold: its 26 characters, what it adds to what is held, and its detail. */
  hold?: { id: string; change: number; detail: string };
  /** What it does to classes: used, held and expired of each. */
  classes: [number: number, used: number, held: number, expired: number][];
};

type Json = { x?: string; i: string; c: number; t: number; u: number; s: number; e: number } & {
  h?: number;
  o?: string;
  m?: number;
  f?: string;
  g?: number[][];
  l?: string;
};

const CHANGES: Record<string, number> = { hold: 1, correction: 1, capture: -1, release: -1, extension: 0 };

/** Reads the JSON of a line. */
export function readLine(text: string): Line {
  const {
    x = 'verification',
    i,
    c,
    t,
    u,
    s,
    e,
    h = 0,
    o,
    m = 0,
    f = '',
    g = [[1, c]],
    l = '',
  } = JSON.parse(text) as Json;
  const hold = o !== undefined && { hold: { id: o, change: m * CHANGES[x]!, detail: f } };
  return {
    kind: x,
    id: i,
    cost: c,
    timeMs: t,
    used: u,
    held: h,
    sequence: s,
    epoch: e,
    crossed: readCrossed(l),
    classes: g.map(([number = 0, used = 0, held = 0, expired = 0]) => [number, used, held, expired]),
    ...hold,
  };
}

/** The alerts that a line crossed. */
export function readCrossed(text: string): Line['crossed'] {
  const fields = text.split(END).slice(0, -1);
  return Array.from({ length: fields.length / 5 }, (_, i) => ({ name: fields[5 * i]!, armed: fields[5 * i + 4]! }));
}
