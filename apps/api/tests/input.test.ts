import { gzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../../shared/contract/errors.ts';
import type { RequestOptions } from '../../../tests/helpers/request.ts';
import { isId, newId } from '../../../shared/values/ids.ts';
import { joinWorld, once, type Answer } from '../../../tests/helpers/world.ts';
import type { ApiRoute } from '../http/route.ts';
import {
  guarded,
  inUsableOrder,
  makeThings,
  nameOf,
  requests,
  sendTo,
  thingsReadBy,
  unknownThing,
  type MadeRequest,
} from './helpers/requests.ts';
import { faultsOf, together, valueOf, type Fault } from './helpers/wrong-input.ts';
import { refused } from './helpers/calls.ts';

// What every operation refuses alike, and what it repeats. Rights are in matrix.test.ts.
const BODY_LIMIT = 65_536;
const world = await joinWorld();
const things = await makeThings(world, world.team.token);

const NONE = ['nonsense', '\u0000'];

/** Another body that is valid, for operations whose good request names no resource. */
const otherBodies: Record<string, object> = {
  'post /api/v1/workspace': { name: 'other' },
  'post /api/v1/jwt': { payload: { other: true } },
  'post /api/v1/jwt/rotate': { retireNow: true },
};

test('each field of a body and each parameter of a query is refused by name: of a wrong type, beyond a bound, missing, unknown', async () => {
  const before = await auditLines();
  let tried = 0;
  for (const route of guarded) {
    const made = requests[nameOf(route)]!.make(things);
    const body: object = route.accepts ?? route.body;
    // A longer text fits into no body.
    const fits = ({ value }: Fault) => JSON.stringify(value).length < (route.bodyLimit ?? BODY_LIMIT);
    const query = route.query ?? { type: 'object', additionalProperties: false };
    const inUrl = ({ at, value }: Fault) => {
      const [text] = Object.values<unknown>(value);
      return at !== '' && isText(text) && String(text).length < 8_000;
    };
    const wrong = { body: body ? faultsOf(body).filter(fits) : [], query: faultsOf(query).filter(inUrl) };
    for (const [part, all] of Object.entries(wrong))
      for (const faults of together(all)) {
        const places = faults.map(({ at }) => (part === 'query' ? at.slice(1) : at));
        for (const answer of await send(route, { ...made, [part]: valueOf(faults) }))
          expectNamed(answer, places, nameOf(route));
        tried += faults.length;
      }
  }
  assert.ok(tried > 500, `only ${tried} faults were tried`);
  assert.is(await auditLines(), before, 'nothing was changed');
});

test('a body that is broken, of another type, compressed or too large is refused by every operation that takes one', async () => {
  for (const route of guarded.filter(({ body }) => body)) {
    const made = requests[nameOf(route)]!.make(things);
    const large = JSON.stringify({ x: 'x'.repeat(route.bodyLimit ?? BODY_LIMIT) });
    for (const [raw, headers, code] of [
      ['{', {}, errors.invalid_json[0]],
      ['{}', { 'Content-Type': 'text/plain' }, errors.not_json[0]],
      [gzipSync('{}').toString('latin1'), { 'Content-Encoding': 'gzip' }, errors.encoded_body[0]],
      [large, {}, errors.body_too_large[0]],
    ] as const)
      for (const answer of await send(route, made, { headers, raw })) await refused(code, answer, nameOf(route));
  }
});

test('an id that is none of ours is unknown, whatever its form', async () => {
  for (const route of guarded) {
    const { make, foreign } = requests[nameOf(route)]!;
    for (const name of thingsReadBy(make, things)) {
      const refusal = foreign ?? unknownThing[name];
      // The others are secrets, of which an answer says no more than that they are not valid.
      if (typeof refusal !== 'number') continue;
      for (const none of NONE)
        for (const answer of await send(route, make({ ...things, [name]: none })))
          await refused(refusal, answer, `${nameOf(route)} with ${name}`);
    }
    // Those that a good request leaves out too.
    const made = make(things);
    for (const part of ['body', 'query'] as const)
      for (const [field, { examples, items }] of Object.entries<any>(route[part]?.properties ?? {}))
        if (isId(String((items ?? { examples }).examples?.[0]))) {
          const answersTo = async (id: string) => {
            const given = { ...(made[part] as object), [field]: items ? [id] : id };
            return (await send(route, { ...made, [part]: given })).map(({ status }) => status);
          };
          const unknown = await answersTo(newId('ws'));
          for (const none of NONE) assert.equal(await answersTo(none), unknown, `${nameOf(route)} with ${field}`);
        }
  }
});

test('a cursor that no page has answered is refused by every list', async () => {
  const lists = guarded.filter(({ query }) => query && 'cursor' in query.properties);
  assert.ok(lists.length > 4);
  for (const route of lists) {
    const made = requests[nameOf(route)]!.make(things);
    for (const answer of await send(route, { ...made, query: { ...made.query, cursor: 'nonsense' } }))
      await refused(errors.invalid_cursor[0], answer, nameOf(route));
  }
});

test('a creation repeated with its Idempotency-Key is answered as before and done once; another request under it is refused', async () => {
  const elsewhere = { ...things, ...(await makeThings(world, (await world.newTeam()).token)) };
  const creations = guarded.filter(({ method, writes }) => method === 'post' && writes);
  for (const route of inUsableOrder(creations)) {
    const what = nameOf(route);
    const { make } = requests[what]!;
    const made = make(things);
    const answerTo = async (asked: MadeRequest, headers: Record<string, string>) =>
      (await send(route, asked, { headers }))[0]!;
    expectNamed(await answerTo(made, { 'Idempotency-Key': 'x'.repeat(256) }), ['Idempotency-Key'], what);
    if (route.idempotencyKeyRequired)
      assert.is((await answerTo(made, {})).body.error?.code, errors.idempotency_key_missing[0], what);
    const headers = once();
    const first = await answerTo(made, headers);
    assert.is(first.status, route.status ?? 200, `${what}: ${first.text}`);
    const lines = await auditLines();
    for (const body of [made.body, backwards(made.body)]) {
      const again = await answerTo({ ...made, body }, headers);
      assert.equal([again.status, again.text], [first.status, first.text], what);
    }
    const other = otherBodies[what] ? { ...made, body: otherBodies[what] } : make(elsewhere);
    assert.is((await answerTo(other, headers)).body.error?.code, errors.idempotency_mismatch[0], what);
    assert.is(await auditLines(), lines, `${what} was done once`);
  }
});

function backwards(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(backwards);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([name, one]) => [name, backwards(one)]);
  return Object.fromEntries(fields.toReversed());
}

/** Sends a request to every server that serves it, with our token. */
function send(route: ApiRoute, made: MadeRequest, options: RequestOptions = {}): Promise<Answer[]> {
  return sendTo(world, route, made, { token: world.team.token, ...options });
}

function expectNamed(answer: Answer, places: string[], what: string): void {
  assert.is(answer.body.error?.code, errors.invalid_request[0], `${what}: ${places.join()}: ${answer.text}`);
  const named = answer.body.error.details.map(({ path }: { path: string }) => path);
  for (const place of places) assert.ok(named.includes(place), `${what} names ${named.join()}, and not ${place}`);
}

function isText(value: unknown): boolean {
  return value === undefined || typeof value === 'string' || typeof value === 'number';
}

async function auditLines(): Promise<number> {
  const { token: _, id } = world.team;
  const [row] = await world.sql<[{ n: number }]>`
    select count(*)::int as n from audit_log where team_id = ${id} and outcome = 'changed'`;
  return row.n;
}
