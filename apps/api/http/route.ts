import type { Static, TObject, TSchema, TString } from 'typebox';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { AuthenticateFrom } from '../../../shared/auth/failed-authentications.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import type { ErrorName } from '../../../shared/contract/errors.ts';
import { TextAnswer, type Call, type ExportAnswer, type Operation, type Tag } from '../../../shared/contract/route.ts';
import { id, object } from '../../../shared/contract/schema-kinds.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Telemetry } from '../../../shared/runtime/telemetry.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Query, Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import type { MasterKeys, Sealer } from '../../../shared/values/seal.ts';
import type { AllowedTarget } from '../../../shared/values/webhook-target.ts';
import type { VerifyBatch } from '../../../shared/verification/batch.ts';
import type { Cancel } from '../../../shared/verification/cancel-calls.ts';
import type { HoldCalls } from '../../../shared/verification/hold-calls.ts';
import type { Verify } from '../../../shared/verification/verifier.ts';
import type { DeniedAttemptLog } from '../audit/denied-attempts.ts';
import type { SignedBody } from '../resources/payments/sources.ts';
import type { Provider } from '../resources/access/provider.ts';
import type { KeySets } from '../resources/jwts/key-sets.ts';
import type { SigningKeys } from '../resources/jwts/signing-keys.ts';
import type { SayChanged } from '../resources/record.ts';
import type { SendExport } from './exports.ts';
import type { FairTurns } from './fair-turns.ts';
import type { SessionCookies } from './session-cookie.ts';
import type { StalePostgresWatch } from '../sync/sweeper.ts';
import type { Quotas } from '../resources/quotas.ts';

/** What the api's handlers work with, besides the request. */
export type Services = {
  /** A transaction where the route `writes`, else the pool. */
  sql: Query;
  /** Says what was changed: it comes into force in Redis, and is told to the audit log and to webhooks. */
  changed: SayChanged;
  clock: Clock;
  redis: ShardedRedis;
  books: Books;
  /** The same with the limits of exports, and how many bytes one may have. */
  exports: { books: Books; mostBytes: number };
  signingKeys: SigningKeys;
  keySets: KeySets;
  /** What webhooks need: the operator's exact targets, and what seals their secrets. */
  webhooks: { allowedTargets: readonly AllowedTarget[]; sealer: Sealer };
  /** The URL of the api as clients reach it; `/` if the operator has not said. */
  publicUrl: string;
  verify: Verify;
  verifyBatch: VerifyBatch;
  holds: HoldCalls;
  cancel: Cancel;
  /** The operator's quotas, for teams without limits of their own. */
  quotas: Quotas;
  sessionCookies: SessionCookies;
  portalCookies: SessionCookies;
  /** Where people sign in, if the operator has said, and the cookie of who is there. */
  provider: Provider | undefined;
  providerCookies: SessionCookies;
  /** Sends a cookie with the answer, if that is a success. */
  setCookie(cookie: string): void;
  /** How much time the request has until its deadline, in ms. */
  leftMs(): number;
};

/** What `handle` needs to serve the routes. */
export type HandleOptions = {
  services: Omit<Services, 'sql' | 'changed' | 'setCookie' | 'leftMs'>;
  /** How long a request may take until its answer. */
  deadlineMs: number;
  /** Sees every team: for work that serves all of them. */
  sql: Sql;
  /** Sees the team that a transaction names: for what a request asks. */
  teamSql: Sql;
  /** By an access token, as the one of a verification, by the secret of a session or of one of the portal, and by what begins them. */
  authenticate: Record<
    'token' | 'verification' | 'session' | 'portal' | 'link' | 'code' | 'provider',
    AuthenticateFrom
  > & {
    source: AuthenticateFrom<SignedBody>;
  };
  limitCalls(caller: Caller): void;
  turns: FairTurns;
  sendExport: SendExport;
  clientAddress(peer: string | undefined, forwardedFor: string | undefined): string;
  /** Writes refused attempts to the audit log, later. */
  deniedAttempts: Pick<DeniedAttemptLog, 'note'>;
  stalePostgres: StalePostgresWatch;
  /** Throws while Redis has no memory for new records. */
  requireMemory(): void;
  masterKeys: MasterKeys;
  telemetry: Telemetry;
  log: Logger;
};

/** An operation and its handler. A decision is returned as data; a failure is thrown as an ApiError. */
// oxlint-disable-next-line no-explicit-any -- one list holds routes whose handlers take different bodies
export type ApiRoute = Operation<any, any, any, any> & { handle(call: AnyCall): Promise<unknown> };
// oxlint-disable-next-line no-explicit-any -- each handler knows the type of its own call
export type AnyCall = any;

/** What a route says, besides its method and its path. */
export type Definition<
  Path extends string,
  Query extends TObject,
  Body extends TSchema,
  Response extends TSchema,
> = Omit<Operation<TObject, Query, Body, Response>, 'method' | 'path' | 'tag' | 'operationId'> & {
  handle(call: Call<ParamsOf<Path>, Query, Body, Services>): Promise<Static<Response> | TextAnswer | ExportAnswer>;
};

/** A route without the name by which `named` lists it. */
export type NewRoute = Omit<ApiRoute, 'operationId'>;

/**
 * Defines a route of the api; its types follow from its schemas. From its path follow what is in it, the errors of what is
 * unknown there, and its group. What is no GET writes.
 */
export function route<
  const Path extends string,
  Response extends TSchema,
  Query extends TObject = TObject<{}>,
  Body extends TSchema = TSchema,
>(method: Operation['method'], path: Path, definition: Definition<Path, Query, Body, Response>): NewRoute {
  const things = [...path.matchAll(/([^/]+)\/\{(\w+)\}/g)].flatMap(([, noun, name]) => {
    const [what, unknown] = nouns[noun!] ?? [];
    return what ? [{ name: name!, schema: id(what), errors: unknown ? [unknown] : [] }] : [];
  });
  const errors = [...things.flatMap((thing) => thing.errors), ...(definition.errors ?? [])];
  return {
    method,
    path,
    tag: tagOf(path),
    writes: method !== 'get',
    ...(things.length > 0 && { params: object(Object.fromEntries(things.map(({ name, schema }) => [name, schema]))) }),
    ...definition,
    errors,
  };
}

/** The route of an operation that verify has too: a script decides it, so it writes nothing here. `decide` gives the answer's JSON. */
export function shared<Body extends TSchema>(
  operation: Operation<TObject, TObject, Body>,
  decide: (call: Call<TObject, TObject, Body, Services>) => Promise<string>,
): NewRoute {
  const handle = async (call: AnyCall) => new TextAnswer('application/json', await decide(call));
  return { ...operation, writes: false, handle };
}

/** Routes in their order; generated clients call each by its name here. */
export function named(routes: Record<string, NewRoute>): readonly ApiRoute[] {
  return Object.entries(routes).map(([operationId, one]) => ({ ...one, operationId }));
}

type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;
export type ParamsOf<Path> = TObject<{ [Name in NamesIn<Path>]: TString }>;

/** What paths name, by the word before it, and the error where it is unknown. */
const nouns: Record<string, [what: Parameters<typeof id>[0], unknown?: ErrorName]> = {
  workspace: ['workspace', 'workspace_forbidden'],
  scope: ['scope', 'scope_not_found'],
  'api-key': ['API key', 'key_not_found'],
  key: ['API key', 'key_not_found'],
  'customer-billing': ['billing record', 'billing_not_found'],
  usage: ['billing record', 'billing_not_found'],
  grant: ['grant', 'grant_not_found'],
  'grant-schedule': ['grant schedule', 'grant_schedule_not_found'],
  plan: ['plan', 'plan_not_found'],
  'access-token': ['access token', 'access_token_not_found'],
  webhook: ['webhook', 'webhook_not_found'],
  delivery: ['webhook delivery', 'webhook_delivery_not_found'],
  'meter-destination': ['meter destination', 'meter_destination_not_found'],
  'payment-source': ['payment source', 'payment_source_not_found'],
  payment: ['payment', 'payment_not_found'],
  team: ['team'],
};

// The first that a path contains.
const groups: [part: RegExp, tag: Tag][] = [
  [/\/portal/, 'Portal'],
  [/\/api-key/, 'API keys'],
  [/\/scope/, 'Scopes'],
  [/\/customer-billing|\/statements|\/plan/, 'Customer billing'],
  [/\/usage|\/verifications/, 'Usage'],
  [/\/jwt|\/\.well-known/, 'JWT'],
  [/\/link-token/, 'Link tokens'],
  [/\/access-token|\/session/, 'Access tokens'],
  [/\/audit-log/, 'Audit log'],
  [/\/webhook/, 'Webhooks'],
  [/\/meter-destination/, 'External meters'],
  [/\/payment-source/, 'Payments'],
  [/\/quota/, 'Quota'],
  [/\/workspace|\/test-clock/, 'Workspaces'],
];

function tagOf(path: string): Tag {
  const group = groups.find(([part]) => part.test(path));
  if (!group) throw new Error(`${path} is of no group of operations`);
  return group[1];
}
