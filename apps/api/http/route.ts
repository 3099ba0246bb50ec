import type { TObject, TSchema } from 'typebox';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Verify } from '../../../shared/verification/verifier.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import type { Route } from '../../../shared/contract/route.ts';
import type { Audit } from '../resources/audit.ts';
import type { SigningKeys } from '../resources/signing-keys.ts';
import type { Change } from '../sync/change.ts';

/** What the api's handlers work with, besides the request. */
export type Services = {
  /** A transaction where the route `writes`, else the pool. */
  sql: Query;
  /** Says that an entity changed and must come into force in Redis; `shard` where it lives in one alone. */
  changed(kind: Change['kind'], entityId: string, shard?: number): void;
  /** Says what it was and has become, for the audit log. */
  audit: Audit;
  redis: ShardedRedis;
  books: Books;
  signingKeys: SigningKeys;
  verify: Verify;
  /** Within how long a request has to be answered. */
  deadlineMs: number;
};

// oxlint-disable-next-line no-explicit-any -- a list of routes holds handlers of unlike bodies
export type ApiRoute = Route<any, any, any, any, Services>;

/** Defines a route of the api; its types follow from its schemas. */
export function route<
  Response extends TSchema,
  Params extends TObject = TObject<{}>,
  Query extends TObject = TObject<{}>,
  Body extends TSchema = TSchema,
>(definition: Route<Params, Query, Body, Response, Services>): Route<Params, Query, Body, Response, Services> {
  return definition;
}
