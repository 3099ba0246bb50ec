/** A key as the endpoint takes it, without the workspace. */
export type Item = Record<string, unknown> & { name?: unknown };
/**
 * What is left of a key's credits: the fields that say it, and what the endpoint takes for it; without that keytally has no place
 * for it. `without` are more fields that it has no place for.
 */
export type Budget = { fields: string[]; billing?: Record<string, unknown>; without?: string[] };
/** What the fields of a record say of a key. */
export type Read = { lost?: string[] } & (
  { item: Item; id?: string; budget?: Budget } | { skipped: string } | { refused: string }
);
/** What a record holds: a key, by which id its system knows it, and what of it has no place here; or why it is left out, as it should be, or refused; or no key, only what has no place. */
export type Found = { lost: string[] } & (
  { item: Item; id?: string; budget?: Budget } | { skipped: string } | { refused: string } | { aside: true }
);
/** What a record of a file holds, and where it stands. */
export type Row = { place: string } & Found;
