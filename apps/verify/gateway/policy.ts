import { ApiError } from '../../../shared/contract/errors.ts';
import { memoize } from '../../../shared/runtime/memoize.ts';
import { hideSecrets } from '../../../shared/values/secrets.ts';
import { bodyValidator } from '../../../shared/contract/validate.ts';
import { verifyBody, type VerifyBody } from '../../../shared/verification/operation.ts';

/** What a request costs and which scopes its key must have. Only the gateway's configuration sets it. */
export type Policy = Pick<VerifyBody, 'billing' | 'requestedScopes'> & { outOfCredits?: 429 };

const FORM =
  'It is "-" for none, or parts such as usage=2,name=tokens,scope=users.read+posts.create,hold=60,onExpiry=charge,outOfCredits=429, percent-encoded';
const flags: readonly string[] = ['create', 'read', 'update', 'del'];
const validate = bodyValidator(verifyBody);

/** Reads the policy segment of a gateway's address; throws an error that shows the right form if it is wrong. */
export const readPolicy: (segment: string) => Policy = memoize((segment) => {
  if (segment === '-') return {};
  const parts = new Map<string, string>();
  for (const part of segment.split(',')) {
    const [, name = '', value = ''] = /^(usage|name|scope|hold|onExpiry|outOfCredits)=(.+)$/.exec(part) ?? [];
    if (name === '') throw wrongPolicy(`"${part}" is not a part of a policy`);
    if (parts.has(name)) throw wrongPolicy(`${name} is given twice`);
    parts.set(name, value);
  }
  const [usage, usageName, scope] = ['usage', 'name', 'scope'].map((name) => parts.get(name));
  const hold = holdOf(parts.get('hold'), parts.get('onExpiry'));
  const billing = {
    ...(usage !== undefined && { usage: decoded(usage) }),
    ...(usageName !== undefined && { usageName: decoded(usageName) }),
    ...(hold && { hold }),
  };
  const requestedScopes = scope?.split('+').map(scopeOf);
  const outOfCredits = outOfCreditsOf(parts.get('outOfCredits'));
  return { ...checked({ billing, ...(requestedScopes && { requestedScopes }) }), ...outOfCredits };
});

function holdOf(seconds: string | undefined, onExpiry: string | undefined) {
  if (seconds === undefined && onExpiry !== undefined) throw wrongPolicy('onExpiry is there without hold');
  if (seconds === undefined) return undefined;
  const expiresIn = /^\d+$/.test(seconds) ? Number(seconds) : seconds;
  return { expiresIn, ...(onExpiry !== undefined && { onExpiry }) };
}

function outOfCreditsOf(status: string | undefined): Pick<Policy, 'outOfCredits'> {
  if (status === undefined) return {};
  if (status === '429') return { outOfCredits: 429 };
  throw wrongPolicy(`outOfCredits is "${status}", and not 429`);
}

function scopeOf(text: string) {
  const [, representation = '', flag = ''] = /^(.*)\.([^.]*)$/s.exec(decoded(text)) ?? [];
  if (flags.includes(flag)) return { representation, [flag]: true };
  throw wrongPolicy(`the scope "${text}" does not end in .${flags.join(', .')}`);
}

// The same schema as verify's body.
function checked(policy: object): Policy {
  try {
    const { billing, requestedScopes } = validate({ key: '-', ...policy });
    return { ...(billing && { billing }), ...(requestedScopes && { requestedScopes }) };
  } catch (error) {
    const { details = [] } = error as ApiError;
    throw wrongPolicy(details.map(({ path, message }) => `${path.slice(1)} ${message}`).join('; '));
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrongPolicy(`"${text}" is not percent-encoded`);
  }
}

function wrongPolicy(text: string): ApiError {
  const why = hideSecrets(text);
  const message = `The policy in the gateway's address is wrong: ${why}. ${FORM}.`;
  return new ApiError('invalid_request', { message, details: [{ path: 'policy', message: why }] });
}
