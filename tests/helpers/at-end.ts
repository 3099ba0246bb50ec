/** Has something done once all tests of the file have run; what was asked for last comes first. */
export function atEnd(work: () => unknown): void {
  (globalThis as { UVU_ENDS?: (() => unknown)[] }).UVU_ENDS?.push(work);
}
