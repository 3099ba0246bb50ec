import type { IncomingMessage } from 'node:http';
import { parse } from 'node:querystring';
import { object } from '../../shared/contract/schema-kinds.ts';
import { bodyValidator, parameterValidator } from '../../shared/contract/validate.ts';
import { readJson } from '../../shared/http/read-json.ts';
import { makeVerifyBatch, type BatchCall } from '../../shared/verification/batch.ts';
import {
  VERIFY_BATCH_BODY_LIMIT,
  VERIFY_BATCH_PATH,
  verifyBatchOuterBody,
} from '../../shared/verification/operation.ts';

/** Of a request with a batch. */
export type Asked = Omit<BatchCall, 'verifications' | 'header'>;

const readBody = bodyValidator(verifyBatchOuterBody);
const readNoQuery = parameterValidator(object({}));

/** Decides the verifications of an authenticated request, and gives the JSON of its answer. */
export function makeBatch(options: Parameters<typeof makeVerifyBatch>[0]) {
  const verifyBatch = makeVerifyBatch(options);

  return async function batch(request: IncomingMessage, asked: Asked) {
    const { verifications } = readBody(await readJson(request, VERIFY_BATCH_BODY_LIMIT));
    readNoQuery({ ...parse(request.url!.slice(VERIFY_BATCH_PATH.length + 1)) });
    const header = (name: string) => request.headers[name] as string | undefined;
    return verifyBatch({ ...asked, verifications, header });
  };
}
