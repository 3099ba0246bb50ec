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

/** A timeout, unless it is none: a call would end at once, or never. */
export function checkedTimeout(name: string, ms: number): number {
  if (Number.isFinite(ms) && ms > 0) return ms;
  throw new TypeError(`${name} is ${String(ms)}; it must be a number of milliseconds above 0`);
}

/** Calls a function of the guarded program. Its mistakes end nothing here, and are printed. */
export function callBack<Args extends unknown[]>(
  name: string,
  callback: (...args: Args) => unknown,
  ...args: Args
): void {
  const call = async () => callback(...args);
  // oxlint-disable-next-line no-console -- there is nobody else to hear it
  call().catch((error: unknown) => console.error(`keytally: ${name} failed:`, error));
}
