type Register = (title: string, run: () => void | Promise<void>) => void;

/** Whether a test file runs in its long form, as `make test-long` has it; in `make test` it is short. */
export const isLong = process.env.TEST_LONG === '1';

/** Of a suite's `test`: what registers the tests that only the long form of its file has. */
export const inLongForm = (test: Register): Register => (isLong ? test : () => {});
