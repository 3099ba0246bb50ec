/**
 * A small change of the product that a test must notice. `from` stands in the file once; `seenBy` is the test file that notices,
 * where it is not the one beside the file.
 */
export type Mutant = { name: string; file: string; from: string; to: string; seenBy?: string };

/** The test file that must notice. */
export function noticer({ file, seenBy = file.replace(/\.ts$/, '.test.ts') }: Mutant): string {
  return seenBy;
}
