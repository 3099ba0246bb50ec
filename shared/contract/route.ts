import type { Static, TObject, TSchema } from 'typebox';
import type { Caller, Permission } from './caller.ts';
import type { ErrorName } from './errors.ts';

/** What documents and validates an operation: its schemas are the source of its types and of the OpenAPI document. */
export type Operation<Params = TObject, Query = TObject, Body = TSchema, Response = TSchema> = {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** As the specification writes it, parameters in braces. */
  path: string;
  tag: string;
  summary: string;
  /** What the access token must hold; absent: the operation is open to all. */
  permission?: Permission;
  /** The status when all is well; preset 200. */
  status?: 200 | 201;
  params?: Params;
  query?: Query;
  body?: Body;
  response: Response;
  /** Most bytes of the body; preset 64 KiB. */
  bodyLimit?: number;
  /** The body may be left out. */
  bodyOptional?: boolean;
  /**
   * Changes something: the handler runs in a transaction, what it says `changed` comes into force before the answer,
   * and a POST takes an Idempotency-Key.
   */
  writes?: boolean;
  /** Refused without an Idempotency-Key. */
  idempotencyKeyRequired?: boolean;
  /** Takes an Idempotency-Key though it does not write. */
  idempotent?: boolean;
  /** What it refuses with, besides what follows from the rest: see operation-errors.ts. */
  errors?: readonly ErrorName[];
  /** A second form of the answer, besides JSON. */
  alternative?: { type: string; description: string; example: string };
};

/** One request as a handler sees it: authenticated, validated, and with what it needs to do its work. */
export type Call<Params extends TSchema, Query extends TSchema, Body extends TSchema, Services> = Services & {
  params: Static<Params>;
  query: Static<Query>;
  body: Static<Body>;
  caller: Caller;
  requestId: string;
  clientAddress: string;
  /** A header's value, by its lower-case name. */
  header(name: string): string | undefined;
};

/** An operation and its handler. A decision is returned as data; a failure is thrown as an ApiError. */
export type Route<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  Response extends TSchema,
  Services,
> = Operation<Params, Query, Body, Response> & {
  handle(call: Call<Params, Query, Body, Services>): Promise<Static<Response> | TextAnswer>;
};

/** An answer that is text already: another form than JSON, or JSON that was assembled from ready-made parts. */
export class TextAnswer {
  readonly type: string;
  readonly text: string;

  constructor(type: string, text: string) {
    this.type = type;
    this.text = text;
  }
}
