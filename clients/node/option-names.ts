/**
 * The message for the first option that does not exist, such as a misspelt one; `undefined` if all exist. The type makes the list of names
 * complete: one that is missing or too much does not compile.
 */
export function unknownOption<Options extends object>(
  options: Options,
  names: Record<keyof Options, unknown>,
): string | undefined {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(names, name));
  if (unknown === undefined) return undefined;
  return `${unknown} is not an option; the options are ${Object.keys(names).join(', ')}`;
}
