import type { TObject, TSchema } from 'typebox';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { AuthenticateFrom } from '../../../shared/auth/failed-authentications.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import type { Quotas } from '../../../shared/contract/quotas.ts';
import type { Route } from '../../../shared/contract/route.ts';
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
import type { KeySets } from '../resources/jwts/key-sets.ts';
import type { SigningKeys } from '../resources/jwts/signing-keys.ts';
import type { SayChanged } from '../resources/record.ts';
import type { SendExport } from './exports.ts';
import type { FairTurns } from './fair-turns.ts';
import type { SessionCookies } from './session-cookie.ts';
import type { StalePostgresWatch } from '../sync/stale-postgres.ts';

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
  authenticate: AuthenticateFrom;
  authenticateForVerify: AuthenticateFrom;
  /** Takes the secret of a session. */
  authenticateSession: AuthenticateFrom;
  /** Takes the secret of a session of the portal. */
  authenticatePortal: AuthenticateFrom;
  /** Takes a link token. */
  authenticateLink: AuthenticateFrom;
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

// oxlint-disable-next-line no-explicit-any -- one list holds routes whose handlers take different bodies
export type ApiRoute = Route<any, any, any, any, Services>;
// oxlint-disable-next-line no-explicit-any -- each handler knows the type of its own call
export type AnyCall = any;

/** Defines a route of the api; its types follow from its schemas. What is no GET writes, but verifications: those a script decides. */
export function route<
  Response extends TSchema,
  Params extends TObject = TObject<{}>,
  Query extends TObject = TObject<{}>,
  Body extends TSchema = TSchema,
>(definition: Route<Params, Query, Body, Response, Services>): Route<Params, Query, Body, Response, Services> {
  const writes = definition.method !== 'get' && definition.permission !== 'key:verify';
  return { writes, ...definition };
}
