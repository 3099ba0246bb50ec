/** Calls a function of the guarded program. Its mistakes end nothing here, and are printed. */
export function tell<Args extends unknown[]>(name: string, listener: (...args: Args) => unknown, ...args: Args): void {
  const call = async () => listener(...args);
  // oxlint-disable-next-line no-console -- there is nobody else to tell
  call().catch((error: unknown) => console.error(`keytally: ${name} failed:`, error));
}
