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
