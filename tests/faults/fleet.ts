import { routes } from '../../apps/api/routes/index.ts';
import { ApiError, errors, type ErrorName } from '../../shared/contract/errors.ts';
import { CAPTURE_PATH, EXTEND_PATH, RELEASE_PATH } from '../../shared/verification/hold-operations.ts';
import { VERIFY_PATH } from '../../shared/verification/operation.ts';
import type { Json } from '../simulator/programs.ts';
import type { Fleet } from '../simulator/clients.ts';

const names = new Map(Object.entries(errors).map(([name, [code]]) => [code, name as ErrorName]));
// Longer than any deadline of the service: an answer that was lost would never come.
const WITHIN_MS = 12_000;

/** The programs of a running stack, as the clients of a simulation ask them. `run` sets its requests apart from those of others. */
export function makeFleet(apiUrl: string, verifyUrl: string, token: string, run: string): Fleet {
  async function send(url: string, method: string, body?: object, idempotencyKey?: string) {
    const response = await fetch(url, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        ...(body && { 'Content-Type': 'application/json' }),
        ...(idempotencyKey && { 'Idempotency-Key': `${run} ${idempotencyKey}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(WITHIN_MS),
    }).catch((cause: unknown) => {
      throw new ApiError('undecided', { cause });
    });
    const text = await response.text().catch((cause: unknown) => {
      throw new ApiError('undecided', { cause });
    });
    const answer: Json = text === '' ? {} : JSON.parse(text);
    if (!response.ok) throw new ApiError(names.get(answer.error.code)!, { message: answer.error.message });
    return { status: response.status, text, body: answer };
  }

  const verifyAt = (url: string) => async (call: { body: object; idempotencyKey: string | undefined }) => {
    const { text, body } = await send(url + VERIFY_PATH, 'POST', call.body, call.idempotencyKey);
    return { status: body.status, reason: body.reason ?? '', body: text };
  };
  const settleAt = (path: string) => async (_: unknown, body: object) => {
    const { text } = await send(verifyUrl + path, 'POST', body);
    return text;
  };
  const api = {
    async handle(_: unknown, { operationId, params = {}, body, idempotencyKey }: Parameters<Api['handle']>[1]) {
      const { method, path } = routes.find((one) => one.operationId === operationId)!;
      const filled = path.replaceAll(/:(\w+)|\{(\w+)\}/g, (_all, a, b) => String((params as Json)[a ?? b]));
      return send(apiUrl + filled, method.toUpperCase(), method === 'get' ? undefined : body, idempotencyKey);
    },
    verify: verifyAt(apiUrl),
    // Whoever asked one that was killed is told by the connection.
    process: { died: new Promise<never>(() => {}) },
  };
  const verify = {
    verify: verifyAt(verifyUrl),
    holds: { capture: settleAt(CAPTURE_PATH), release: settleAt(RELEASE_PATH), extend: settleAt(EXTEND_PATH) },
  };
  return { api: () => api as unknown as Api, verify: () => verify as unknown as ReturnType<Fleet['verify']> };
}

type Api = NonNullable<ReturnType<Fleet['api']>>;
