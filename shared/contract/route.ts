import type { Readable } from 'node:stream';
import type { Static, TObject, TSchema } from 'typebox';
import type { Caller, Permission } from './caller.ts';
import type { ErrorName } from './errors.ts';

/** The groups of operations, with what they are about. */
export const tags = {
  'API keys': 'Keys of your customers: made, verified, rotated and ended.',
  Workspaces: 'A workspace holds keys, scopes and billing records.',
  Scopes: 'What keys of a workspace can be granted.',
  'Customer billing': 'Credits of your customers: bought, used, corrected and proved.',
  Usage: 'What was used, by day and name.',
  JWT: 'JWTs that your team signs, and the keys that prove them.',
  'Link tokens': 'Links for your customers that end by themselves.',
  Portal: 'What a customer sees who has opened such a link: their own keys, usage and balance.',
  'Access tokens': 'Who may call the API, and for what.',
  'Audit log': 'Who changed what, and who was denied.',
  Webhooks: 'What happens, told to your own servers.',
  'External meters': 'Usage, sent to where it is billed, and the proof of it.',
  Payments: 'What was paid elsewhere, and the credits that it became.',
  Quota: 'What your team may store, and how often it may ask.',
  Gateways: 'Check requests of gateways in front of your API.',
  Probes: 'Whether a process works, for whoever runs it.',
} as const;

export type Tag = keyof typeof tags;

/** An operation of the API. Its schemas validate requests and are the source of its types and of the OpenAPI document. */
export type Operation<Params = TObject, Query = TObject, Body = TSchema, Response = TSchema> = {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** With parameters in braces, as in the specification: `/api/v1/workspace/{id}`. */
  path: string;
  tag: Tag;
  /** What generated clients call it: a verb and its object, unique. */
  operationId: string;
  summary: string;
  description: string;
  /** The permission that the access token must have; absent: anybody may call the operation, without a token. */
  permission?: Permission;
  /** Any access token may call the operation, whatever its permissions. */
  anyToken?: boolean;
  /** The operation is the portal's: it takes a session of the portal, or the link token that begins one, and no access token. */
  portal?: 'session' | 'link';
  /** Whoever signed the body calls it: a payment source, as its path and the Stripe-Signature say. */
  signed?: boolean;
  /** The operation begins a session of the console: it takes a code that works once, or what a provider has answered, and no access token. */
  enters?: 'code' | 'provider';
  /** A second permission that the token must have. */
  alsoPermission?: Permission;
  /** The status of a success; default 200. */
  status?: 200 | 201;
  params?: Params;
  query?: Query;
  body?: Body;
  /** What is checked of the body before the handler, where the handler checks each item itself; default `body`. */
  accepts?: TSchema;
  response: Response;
  /** Most bytes that the body may have; default 64 KiB. */
  bodyLimit?: number;
  /** The body may be left out. */
  bodyOptional?: boolean;
  /**
   * The operation changes something: the handler runs in a transaction, the changes that it reports as `changed` come into
   * force before the answer, and a POST takes an Idempotency-Key. In the api a route that is no GET writes unless it says otherwise.
   */
  writes?: boolean;
  /** The operation makes something that takes memory in Redis: it is refused while memory is short. */
  grows?: boolean;
  /** The operation revokes access tokens: it waits for the writes of the team that are under way, and no other begins meanwhile. */
  revokes?: boolean;
  /** A request without an Idempotency-Key is refused. */
  idempotencyKeyRequired?: boolean;
  /** The operation takes an Idempotency-Key although it does not write. */
  idempotent?: boolean;
  /** The operation takes a header that says how long its client waits. */
  patient?: boolean;
  /** The operation's own errors; operation-errors.ts adds those that follow from its other properties. */
  errors?: readonly ErrorName[];
  /** Caches may keep the answer: it has an ETag, and a request that names it gets 304. */
  cacheable?: boolean;
  /** A second form of the answer, besides JSON. */
  alternative?: { type: string; description: string; example: string };
  /** A further form of the answer, which is a file and no text. */
  file?: { type: string; description: string };
};

/** One request as a handler sees it: authenticated, validated, and with the services that the handler needs. */
export type Call<Params extends TSchema, Query extends TSchema, Body extends TSchema, Services> = Services & {
  params: Static<Params>;
  query: Static<Query>;
  body: Static<Body>;
  caller: Caller;
  requestId: string;
  clientAddress: string;
  /** The value of a header, by its lower-case name. */
  header(name: string): string | undefined;
  /** Which of some media types the client prefers, by its Accept header (RFC 9110); false: none. */
  accepts(types: string[]): string | false;
};

/** An answer that is text already: a form other than JSON, or JSON that was assembled from parts in JSON. */
export class TextAnswer {
  declare readonly type: string;
  declare readonly text: string | Buffer;
  /** The name of the file that it is. */
  declare readonly name?: string | undefined;
  /** With an `ETag` a request that names it gets no body. */
  declare readonly headers?: Record<string, string> | undefined;

  constructor(type: string, text: string | Buffer, more: { name?: string; headers?: Record<string, string> } = {}) {
    Object.assign(this, { type, text, ...more });
  }
}

/** A file on its way: its bytes, and how many there are where that is known. */
export type OpenExport = { stream: Readable; bytes: number | undefined };

/** A file that is made once the handler has ended: it may take minutes, and no more memory when it is large. */
export class ExportAnswer {
  declare readonly type: string;
  declare readonly name: string;
  /** Makes the whole file, or throws; the signal says that nobody waits for it any more. */
  declare readonly open: (signal: AbortSignal) => Promise<OpenExport>;

  constructor(type: string, name: string, open: ExportAnswer['open']) {
    Object.assign(this, { type, name, open });
  }
}
