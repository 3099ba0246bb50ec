import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { prefersCsv } from '../../apps/api/http/csv.ts';
import { readPolicy } from '../../apps/verify/gateway/policy.ts';
import { keytally } from '../../clients/node/index.ts';
import { errorOf } from '../../clients/node/error.ts';
import { verifyInputOf } from '../../clients/node/guard-options.ts';
import { keysOf } from '../../clients/node/key.ts';
import { requestOf } from '../../clients/node/operations.ts';
import { bearerToken } from '../../shared/auth/access-token.ts';
import { checkJsonObject } from '../../shared/contract/json-object.ts';
import { metadata, prefix, scopeEntries } from '../../shared/contract/schemas.ts';
import { object, textOf, timestamp, day } from '../../shared/contract/schema-kinds.ts';
import { bodyValidator, formats, parameterValidator } from '../../shared/contract/validate.ts';
import { makeClientAddress } from '../../shared/http/client-address.ts';
import { idempotencyKey } from '../../shared/http/idempotency-key.ts';
import { hasJsonBody, parseJson } from '../../shared/http/read-json.ts';
import { requestId } from '../../shared/http/request-id.ts';
import { creditsFromNumber, parseCredits, parseSignedCredits } from '../../shared/values/credits.ts';
import { isId } from '../../shared/values/ids.ts';
import { addressBits, blockBits, isLoopback } from '../../shared/values/ip.ts';
import { hashKeyText, keyShard, maskKeyText } from '../../shared/values/key-text.ts';
import { decodeUnreserved, isAmbiguousPath } from '../../shared/values/percent.ts';
import { hideSecrets, holdsSecret } from '../../shared/values/secrets.ts';
import { verifyBody } from '../../shared/verification/operation.ts';

// As much as the head of a request may have.
const LENGTH = 16_384;
// What takes the square of the length takes some hundreds.
const MOST_MS = 40;
const RUNS = 5;

const validate = bodyValidator(verifyBody);
const validateScopes = bodyValidator(object({ scopes: scopeEntries, prefix, name: textOf(128, 'n', 'n'), metadata }));
const readQuery = parameterValidator(object({ from: day('d'), at: timestamp('t'), name: textOf(128, 'n', 'n') }));
const clientAddress = makeClientAddress(['127.0.0.0/8', '::/1', '1.0.0.0/8']);
const seen = { method: 'GET', ip: undefined, header: () => undefined };

/** Every function that gets a text of somebody who has no token yet, or of a token's holder. */
const functions: Record<string, (text: string) => unknown> = {
  // clients/node
  'keysOf, authorization': (text) => keysOf((name) => (name === 'authorization' ? text : undefined)),
  'keysOf, x-api-key': (text) => keysOf((name) => (name === 'x-api-key' ? text : undefined)),
  'keysOf, half a header of keys and half of lines': (text) =>
    keysOf(
      (name) => (name === 'x-api-key' ? text.slice(0, LENGTH / 2) : undefined),
      Array.from({ length: 400 }, () => ['Authorization', text.slice(0, 20)]).flat(),
    ),
  'a request at a guard': (text) => verifyInputOf('k', { ip: () => text }, {}, { ...seen, url: text }),
  'an answer of a wrong server': (text) => errorOf({ status: 500, headers: new Headers(), text }),
  'the address of a client': (text) => keytally({ url: `http://a/${text}`, token: 'kt_x' }),
  'the token of a client': (text) => keytally({ url: 'http://a/', token: text }),
  'an id in a path': (text) => requestOf('get /a/{id}', { id: text, query: text }),
  // apps
  readPolicy,
  'readPolicy, a part': (text) => readPolicy(`usage=1,name=${text}`),
  'readPolicy, scopes': (text) => readPolicy(`scope=${text}`),
  prefersCsv,
  // shared/http
  requestId,
  idempotencyKey,
  parseJson: (text) => parseJson(Buffer.from(text)),
  'content type': (text) => hasJsonBody({ 'content-length': '1', 'content-type': text }, 1),
  'content encoding': (text) => hasJsonBody({ 'transfer-encoding': text, 'content-encoding': text }, 1),
  'X-Forwarded-For': (text) => clientAddress('127.0.0.1', text),
  'X-Forwarded-For, from the end': (text) => clientAddress('127.0.0.1', `${text}, 1.2.3.4`),
  // shared/auth
  bearerToken,
  // shared/values
  hideSecrets,
  holdsSecret,
  decodeUnreserved,
  isAmbiguousPath,
  keyShard,
  hashKeyText,
  maskKeyText,
  isId,
  addressBits,
  blockBits,
  isLoopback,
  parseCredits,
  parseSignedCredits,
  creditsFromNumber: (text) => creditsFromNumber(Number(text)),
  // shared/contract
  'body: key and route': (text) => validate({ key: text, route: text }),
  'body: ip': (text) => validate({ key: 'k', ip: text }),
  'body: billing': (text) => validate({ key: 'k', billing: { usage: text, usageName: text } }),
  'body: scopes': (text) => validate({ key: 'k', requestedScopes: [{ representation: text, id: text }] }),
  'body: name of a field': (text) => validate({ key: 'k', [text]: 1 }),
  'body: settings': (text) =>
    validateScopes({ scopes: [{ representation: text }], prefix: text, name: text, metadata: { [text]: text } }),
  'query: days and times': (text) => readQuery({ from: text, at: text, name: text }),
  'format ip-or-cidr': (text) => formats['ip-or-cidr'](text),
  checkJsonObject: (text) => checkJsonObject({ [text]: text }, { maxBytes: 4096, maxDepth: 5 }),
};

// Characters of every class, and what schemes, secrets, addresses, policies and paths are made of.
const units = [
  [' ', '\t', '\n', '\r', '\u00a0', 'a', 'Z', '0', '_', '-', '.', ',', ';', ':', '/', '\\', '=', '%', '+', '*'],
  ['"', "'", '[', '{', '(', '\u0000', '\u00e9', '\u20ac', '\ud800', '\u{1f600}', 'a ', ' a', '\ta', '. ', ' ,', 'a,'],
  ['%5F', '%5f', '%25', '%2525', '%41', '%%34%31', '%2e/', '../', './', '..', '%2f..', 'eyJ', 'eyJaaaaaaaaaa.', 'a.'],
  ['_17', '_17aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'key_17', '1.', '1:', '0:', '::', '127.0.0.1,', '1.2.3.4, ', '255.'],
  ['usage=1,', 'name=', 'a.read+', 'scope=', 'q=1;', 'text/csv,', 'Bearer ', 'Basic ', 'Og==', 'OjE6'],
].flat();
const beginnings = ['', 'Bearer ', 'Basic a', ' ', 'a', '1.2.3.4', 'key_17', `${'eyJ'.repeat(160)}.`];
// The last character decides that a pattern fails.
const ends = ['', 'x', ' ', '\u00e9'];

const texts = beginnings.flatMap((beginning) =>
  units.flatMap((unit) =>
    ends.map((end) => {
      const times = Math.floor((LENGTH - beginning.length - end.length) / unit.length);
      return { text: beginning + unit.repeat(times) + end, parts: [beginning.slice(0, 20), unit, end] };
    }),
  ),
);

for (const [name, read] of Object.entries(functions)) {
  test(`16 KB of any characters cost little: ${name}`, () => {
    for (const { text, parts } of texts) assert.ok(leastMs(() => read(text)) < MOST_MS, JSON.stringify(parts));
  });
}

// The least of several runs, as soon as one is short enough: it counts the processor's time of this thread alone, and a
// collection of garbage meets one run, not all.
function leastMs(run: () => unknown): number {
  let least = Infinity;
  for (let i = 0; i < RUNS && least >= MOST_MS; i++) {
    const before = process.threadCpuUsage();
    try {
      run();
    } catch (error) {
      // The refusal of a wrong text; a mistake of this test is none.
      if (error instanceof ReferenceError) throw error;
    }
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}
