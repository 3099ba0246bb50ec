type Told = { name: string; as?: string; told?: readonly string[] };

/** The field of a form that the api names by a path such as `/limits/0/limit`. */
export function fieldOf<F extends Told>(fields: readonly F[], path: string): F | undefined {
  const parts = path.split('/');
  return fields.findLast(({ name, told = [name] }) => told.some((one) => parts.includes(one)));
}

const takes: Partial<Record<string, string>> = {
  credits: 'Write an amount such as 1000 or 0.25, with at most six decimals.',
  number: 'Write a whole number.',
  moment: 'Choose a day and a time.',
  date: 'Choose a day.',
};
const words: readonly (readonly [said: RegExp, plain: string])[] = [
  [/ fewer than 1 items/, 'Choose at least one.'],
  [/ fewer than 1 characters|^must be given/, 'Fill this in.'],
  [/ more than (\d+) characters/, 'Write at most $1 characters.'],
  [/^must be >= (\S+)/, 'Write at least $1.'],
  [/^must be <= (\S+)/, 'Write at most $1.'],
  [/milliseconds|in the future/, 'Choose a time in the future.'],
  [/format "ip-or-cidr"/, 'Write addresses such as 203.0.113.7, or blocks such as 203.0.113.0/24.'],
  [/^must match pattern/, 'Some of these characters cannot stand here.'],
];

/** What is wrong with a field, in plain words, from what the api said of it. */
export function plainWords({ as = 'text' }: Pick<Told, 'as'>, said: string): string {
  const isKind = /^must (match pattern|be (integer|number|string))/.test(said);
  if (isKind && takes[as]) return takes[as];
  const found = words.find(([one]) => one.test(said));
  if (!found) return `It ${said}.`;
  return found[1].replace('$1', found[0].exec(said)?.[1] ?? '');
}
