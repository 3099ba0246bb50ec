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

// A longer answer is sent in slices.
const LONG_TEXT = 64 * 1024;

const readBody = bodyValidator(verifyBatchOuterBody);
const readNoQuery = parameterValidator(object({}));

/** Answers an authenticated request with a batch of verifications. */
export function makeBatch(options: Parameters<typeof makeVerifyBatch>[0]) {
  const verifyBatch = makeVerifyBatch(options);

  return async function batch(request: IncomingMessage, asked: Omit<BatchCall, 'verifications' | 'header'>) {
    const { verifications } = readBody(await readJson(request, VERIFY_BATCH_BODY_LIMIT));
    readNoQuery({ ...parse(request.url!.slice(VERIFY_BATCH_PATH.length + 1)) });
    const header = (name: string) => request.headers[name] as string | undefined;
    const text = await verifyBatch({ ...asked, verifications, header });
    return { status: 200, type: 'application/json', text: text.length > LONG_TEXT ? Buffer.from(text) : text };
  };
}
