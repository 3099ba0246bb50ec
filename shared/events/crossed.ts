import type { Alert } from '../contract/alerts.ts';
import { END } from '../stores/fields.ts';
import { formatCredits } from '../values/credits.ts';

/** An alert that an event crossed: as it was declared then, and which arming of it the crossing ended. */
export type Crossing = Alert & { armed: string };

const FIELDS = 5;

/** The alerts in an event's field `crossed`. One of a kind that a later release knows is left out. */
export function readCrossed(text: string): Crossing[] {
  const fields = text.split(END).slice(0, -1);
  return Array.from({ length: Math.floor(fields.length / FIELDS) }, (_, i) => {
    const [name = '', kind, value, limit = '', armed = ''] = fields.slice(FIELDS * i, FIELDS * (i + 1));
    const when = whenOf(kind, Number(value), limit);
    return when && { name, when, armed };
  }).filter((crossing) => crossing !== undefined);
}

function whenOf(kind: string | undefined, value: number, limit: string): Alert['when'] | undefined {
  if (kind === 'usedPercent') return { usedPercent: value };
  if (kind === 'available') return { available: formatCredits(value) };
  return kind === 'limit' ? { limit, usedPercent: value } : undefined;
}
