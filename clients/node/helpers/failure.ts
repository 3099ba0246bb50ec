import * as assert from 'uvu/assert';
import { KeytallyError } from '../index.ts';

/** The error with which the call fails. */
export async function failure(call: Promise<unknown>): Promise<KeytallyError> {
  const error = await call.then(
    () => assert.unreachable('it should have failed'),
    (error: unknown) => error,
  );
  assert.instance(error, KeytallyError);
  return error as KeytallyError;
}
