import type { IncomingMessage } from 'node:http';
import { parse } from 'node:querystring';
import type { Static, TSchema } from 'typebox';
import { object } from '../../shared/contract/schema-kinds.ts';
import { bodyValidator, parameterValidator } from '../../shared/contract/validate.ts';
import { readJson } from '../../shared/http/read-json.ts';
import { makeVerifyBatch, type BatchCall } from '../../shared/verification/batch.ts';
import type { Cancel } from '../../shared/verification/cancel-calls.ts';
import type { HoldCalls } from '../../shared/verification/hold-calls.ts';
import { captureOperation, extendOperation, releaseOperation } from '../../shared/verification/hold-operations.ts';
import {
  cancelOperation,
  verifyBatchOperation,
  verifyBatchOuterBody,
  verifyOperation,
} from '../../shared/verification/operation.ts';
import { decided, type Answer } from './answer.ts';

export const operations = [
  ...([verifyOperation, verifyBatchOperation, cancelOperation] as const),
  ...([captureOperation, releaseOperation, extendOperation] as const),
];

/** What is known of a request before its body is read. */
export type Asked = Omit<BatchCall, 'verifications' | 'header'>;
export type CallOptions = Parameters<typeof makeVerifyBatch>[0] & { holds: HoldCalls; cancel: Cancel };
export type Call = (request: IncomingMessage, asked: Asked) => Promise<Answer>;

const readNoQuery = parameterValidator(object({}));

/** What answers an authenticated request of each operation, by its path. */
export function makeCalls({ holds, cancel, ...options }: CallOptions): Map<string, Call> {
  const verifyBatch = makeVerifyBatch(options);
  return new Map([
    callOf(verifyOperation, async (body, asked, header) => {
      const decision = await options.verify({ ...asked, body, idempotencyKey: header('idempotency-key') });
      return decision.body;
    }),
    callOf({ ...verifyBatchOperation, body: verifyBatchOuterBody }, ({ verifications }, asked, header) =>
      verifyBatch({ ...asked, verifications, header }),
    ),
    callOf(cancelOperation, (body, { caller }) => cancel(caller, body)),
    callOf(captureOperation, (body, { caller }) => holds.capture(caller, body)),
    callOf(releaseOperation, (body, { caller }) => holds.release(caller, body)),
    callOf(extendOperation, (body, { caller }) => holds.extend(caller, body)),
  ]);
}

function callOf<Body extends TSchema>(
  { path, body, bodyLimit }: { path: string; body: Body; bodyLimit: number },
  answer: (body: Static<Body>, asked: Asked, header: BatchCall['header']) => Promise<string>,
): [string, Call] {
  const read = bodyValidator(body);
  return [
    path,
    async (request, asked) => {
      const given = read(await readJson(request, bodyLimit));
      if (request.url !== path) readNoQuery({ ...parse(request.url!.slice(path.length + 1)) });
      return decided(await answer(given, asked, (name) => request.headers[name] as string | undefined));
    },
  ];
}
