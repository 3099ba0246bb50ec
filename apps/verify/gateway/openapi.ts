import { refusals } from '../../../clients/node/contract.ts';
import { errors, type ErrorName } from '../../../shared/contract/errors.ts';
import { failures } from '../../../shared/contract/openapi.ts';
import { errorsOfAll } from '../../../shared/contract/operation-errors.ts';
import { dialectNames } from './dialect.ts';

// Of a gateway's own key this is a mistake of the gateway.
const { IDEMPOTENCY_MISMATCH: _, ...ofKeys } = refusals;
const refusalCodes = new Set<number>(Object.values(ofKeys).map(([code]) => code));
const names = (Object.keys(errors) as ErrorName[]).filter((name) => refusalCodes.has(errors[name][0]));

const passed = {
  'X-Keytally-Key-Id': 'id of the API key',
  'X-Keytally-Workspace-Id': 'id of its workspace',
  'X-Keytally-Customer-Id': 'your own id of the customer, percent-encoded where it is not printable ASCII',
  'X-Keytally-Meter-Id': 'your own id of the meter, likewise',
  'X-Keytally-Status': 'VALID',
  'X-Keytally-Remaining-Credits': 'credits that are left; empty without a limit',
  'X-Keytally-Hold-Id': 'id of the hold, for its capture; empty where the policy holds nothing',
  RateLimit: 'of the IETF draft: "key";r=REMAINING;t=SECONDS',
  'RateLimit-Policy': 'of the IETF draft: "key";q=LIMIT;w=SECONDS',
  'X-RateLimit-Limit': 'the tightest limit on requests',
  'X-RateLimit-Remaining': 'what is left of its allowance',
  'X-RateLimit-Reset': 'when the allowance is whole again, in Unix seconds',
};

const text = { schema: { type: 'string' } };
const parameter = (name: string, place: 'path' | 'header', description: string, example: string) => ({
  name,
  in: place,
  required: place === 'path' || name === 'X-Keytally-Token',
  description,
  schema: { type: 'string', ...(name === 'dialect' && { enum: dialectNames }) },
  example,
});

const describe = (method: string) => ({
  tags: ['Gateways' as const],
  summary: "Decide whether an end client's request may pass, and debit its cost",
  operationId: `checkRequestBy${method.charAt(0).toUpperCase()}${method.slice(1)}`,
  description: 'A gateway asks this before each request, with the method that the request has. 200: it may pass.',
  security: [],
  'x-permission': 'key:verify',
  parameters: [
    parameter('dialect', 'path', 'the kind of gateway', 'nginx'),
    parameter('policy', 'path', 'what a request costs and needs; "-" for nothing', 'usage=2,name=tokens'),
    parameter('path', 'path', 'the path that some gateways append; may be absent, and may hold slashes', 'documents'),
    parameter('X-Keytally-Token', 'header', "the gateway's access token", 'kt_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1'),
    parameter('X-Keytally-Idempotency-Key', 'header', 'for 60 seconds a request is debited once', '5f1c'),
    parameter('X-Api-Key', 'header', "the end client's key, unless Authorization has it", 'key_17aT9'),
  ],
  responses: {
    200: {
      description: 'The request may pass. All of these headers are always there, empty without a value.',
      headers: Object.fromEntries(
        Object.entries(passed).map(([name, description]) => [name, { description, ...text }]),
      ),
      content: { 'text/plain': { schema: { type: 'string', maxLength: 0 }, example: '' } },
    },
    ...failures([...errorsOfAll, ...names]),
  },
});

const methods = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options'];

/** The address that gateways ask, for verify's OpenAPI document. */
export const gatewayPaths = {
  '/gateway/{dialect}/{policy}/{path}': Object.fromEntries(methods.map((method) => [method, describe(method)])),
};
