import { asApiError, errorEnvelope } from '../../shared/contract/errors.ts';
import type { LogFailure } from '../../shared/http/log-failures.ts';

/** Makes the answer to a request that failed, and writes the failure to the log. */
export function makeFailure(logFailure: LogFailure) {
  return function failure(thrown: unknown, requestId: string) {
    const error = asApiError(thrown);
    logFailure(error, requestId);
    const text = JSON.stringify(errorEnvelope(error, requestId));
    return { status: error.status, type: 'application/json', text, headers: error.headers };
  };
}
