/**
 * Whether a test file runs in its long form, as `make test-long` has it; in `make test` it is short. Both prove the same, the long form by
 * more of it.
 */
export const isLong = process.env.TEST_LONG === '1';
