/** The names of an object's options. The type makes the list complete: a name that is missing or too much does not compile. */
export type OptionNames<Options> = Record<keyof Options, true>;

/** The message for the first option that does not exist, such as a misspelt one; `undefined` if all exist. */
export function unknownOption<Options extends object>(
  options: Options,
  names: OptionNames<Options>,
): string | undefined {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(names, name));
  if (unknown === undefined) return undefined;
  return `${unknown} is not an option; the options are ${Object.keys(names).join(', ')}`;
}
