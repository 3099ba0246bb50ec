/** A small change of the product that a test must notice. `from` stands in the file once; `seenBy` is the test file that notices. */
export type Mutant = { name: string; file: string; from: string; to: string; seenBy: string };
