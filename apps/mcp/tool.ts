import type { Static, TProperties, TSchema } from 'typebox';
import type { Keytally } from '../../clients/node/index.ts';
import type { operations } from '../../clients/node/operations.ts';

type Operations = typeof operations;

type Reads<Names> = { [Name in keyof Names]: Names[Name] extends `get ${string}` ? Name : never }[keyof Names];

/** The operations of the api that change nothing. A tool gets no other. */
export type Reader = {
  [Group in keyof Operations]: Pick<Keytally[Group], Reads<Operations[Group]> & keyof Keytally[Group]>;
};

export type Tool<Input extends TSchema = TSchema> = {
  name: string;
  title: string;
  /** For the model: what it answers, and which tool comes before or after. */
  description: string;
  input: Input;
  output: TSchema;
  /** The one text of the input that may be a whole key: the tool masks it. */
  masks?: string;
  /**
   * `text` says the result in keytally's own words. `data` is what the api answered: of it the model is given what `output` names,
   * what customers wrote under `untrusted`.
   */
  run(input: Static<Input>, reader: Reader): Promise<{ text: string; data: object }>;
};

/** Types what a tool is given by its schema. */
export function tool<Input extends TSchema>(one: Tool<Input>): Tool {
  return one;
}

/** What a schema of a result takes of what the api answered, and nothing else; the texts under `untrusted` as `shown`. */
export function present(schema: TSchema & { items?: TSchema; properties?: TProperties }, given: unknown): unknown {
  const { items, properties } = schema;
  if (items) return (given as unknown[]).map((one) => present(items, one));
  if (!properties) return given;
  const values = given as Record<string, unknown>;
  const entries = Object.entries(properties).map(([name, one]) => {
    if (name === 'untrusted') return [name, textsOf(one, values)];
    return [name, values[name] === undefined ? undefined : present(one, values[name])];
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

function textsOf({ properties }: { properties?: TProperties }, values: Record<string, unknown>) {
  const names = Object.keys(properties ?? {}).filter((name) => values[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, shown(values[name] as string)]));
}

const MOST_CHARACTERS = 256;

// Format characters, and those that fonts show as nothing: variation selectors carry any bytes, fillers look like spaces. An
// emoji keeps the one selector that makes it one.
const hidden = /(?!(?<=\p{ExtPict})\ufe0f)[\p{Cf}\p{DI}]/gu;

// Not too long, and without characters that nobody sees.
function shown(text: string): string {
  const cut = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
  return cut.toWellFormed().replace(hidden, '\ufffd');
}

/** Says that more is there, if it is. */
export function more(nextCursor: string | undefined): string {
  return nextCursor === undefined ? '' : ' There are more: ask again with nextCursor as cursor.';
}

/** Says how many there are of each kind, the most first: "3 EXPIRED, 1 DISABLED". */
export function tally<Item>(
  items: readonly Item[],
  kindOf: (item: Item) => string,
  countOf = (_item: Item) => 1,
): string {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(kindOf(item), (counts.get(kindOf(item)) ?? 0) + countOf(item));
  const sorted = [...counts].toSorted(([, a], [, b]) => b - a);
  return sorted.map(([kind, count]) => `${count} ${kind}`).join(', ') || 'none';
}
