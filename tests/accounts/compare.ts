import * as fc from 'fast-check';

export type Run = {
  sequences: number;
  /** The most steps of a sequence; by default 50. */
  most?: number;
  /** By default a random one. */
  seed?: number | undefined;
  /** Called after each sequence, with how many steps it had. */
  onSequence?(steps: number): void;
};

/** What a comparison found. Without `failure`, nothing differed. */
export type Compared = { sequences: number; steps: number; failure?: string };

/**
 * Does random sequences until one differs from the model, which is made as short as possible. `run` does one and throws where it
 * differs; `stepsOf` gives its steps.
 */
export async function compareSequences<T>(
  sequences: fc.Arbitrary<T>,
  run: (sequence: T) => Promise<void>,
  stepsOf: (sequence: T) => readonly unknown[],
  { sequences: numRuns, seed, onSequence }: Run,
): Promise<Compared> {
  let steps = 0;
  const property = fc.asyncProperty(sequences, async (sequence) => {
    await run(sequence);
    const { length } = stepsOf(sequence);
    steps += length;
    onSequence?.(length);
  });
  const result = await fc.check(property, {
    numRuns,
    ...(seed !== undefined && { seed }),
  });
  const done = { sequences: result.numRuns, steps };
  if (!result.failed) return done;
  const { errorInstance, counterexample } = result as { errorInstance?: unknown; counterexample: [T] | null };
  return { ...done, failure: failureText(result.seed, errorInstance, counterexample?.[0], stepsOf) };
}

function failureText<T>(
  seed: number,
  error: unknown,
  sequence: T | undefined,
  stepsOf: (one: T) => readonly unknown[],
) {
  const said = error instanceof Error ? error.message : String(error);
  if (sequence === undefined) return `seed ${seed}: ${said}`;
  const steps = stepsOf(sequence);
  const before = Object.entries(sequence as object).filter(([, value]) => value !== steps);
  const lines = [...before.map(([name, value]) => `${name}: ${fc.stringify(value)}`), ...steps.map(oneLine)];
  return [`seed ${seed}: ${said}`, 'the shortest sequence:', ...lines.map((line) => `  ${line}`)].join('\n');
}

function oneLine(step: unknown): string {
  return fc.stringify(step);
}
