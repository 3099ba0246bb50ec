import { withComponents } from '../../../shared/contract/components.ts';
import { titled } from '../../../shared/contract/openapi.ts';
import { webhookData } from '../../../shared/contract/webhook-events.ts';
import type { Operation } from '../../../shared/contract/route.ts';
import { pageParameters } from '../http/pages.ts';

/** The part of JSON Schema that the OpenAPI document uses. */
export type Schema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  minimum?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
};

/** An operation as clients have it. */
export type ClientOperation = Pick<Operation, 'method' | 'path' | 'operationId' | 'summary'> & {
  permissions: string[];
  /** What its path names, and its query; a client chooses JSON or CSV by its Accept header, so `format` is left out. */
  inPath: Schema;
  query: Schema;
  body: Schema | undefined;
  /** What it answers, by media type. */
  answers: Record<string, Schema>;
};

/** What clients have of the contract: its operations, what events of webhooks tell, by type, and the schemas that have a name. */
export function contractOf(operations: readonly Operation[]) {
  const events: Record<string, object> = webhookData;
  const { value, schemas } = withComponents({ operations: operations.map(operationOf), events });
  const named = schemas as Record<string, Schema>;
  for (const { operationId, inPath, query, body } of value.operations)
    requireDifferentNames(operationId, [inPath, query, resolved(named, body)]);
  return { ...value, events: value.events as Record<string, Schema>, schemas: named };
}

function operationOf(operation: Operation): ClientOperation {
  const { method, path, operationId, summary, permission, alsoPermission, alternative, file } = operation;
  const { format: _, ...query } = (operation.query?.properties ?? {}) as Record<string, Schema>;
  const required = (operation.query?.required ?? []).filter((name) => !('default' in query[name]!));
  return {
    method,
    path,
    operationId,
    summary,
    permissions: [permission, alsoPermission].filter((one) => one !== undefined),
    inPath: operation.params ?? {},
    query: { properties: query, required },
    body: operation.body && titled(operationId, 'Request', operation.body),
    answers: {
      'application/json': titled(operationId, 'Result', operation.response),
      ...Object.fromEntries([alternative, file].flatMap((form) => (form ? [[form.type, { type: 'string' }]] : []))),
    },
  };
}

/** Throws where path, query and body have a name in common: some clients take them as one object. */
function requireDifferentNames(id: string, inputs: Schema[]): void {
  const names = inputs.flatMap(({ properties = {} }) => Object.keys(properties));
  if (new Set(names).size < names.length) throw new Error(`${id} has two inputs of one name`);
}

/** A schema, where it refers to another one that other. */
export function resolved(schemas: Record<string, Schema>, schema: Schema = {}): Schema {
  return schema.$ref ? schemas[refName(schema)]! : schema;
}

/** Objects as one that has the fields of all. */
export function together(...schemas: Schema[]): Required<Pick<Schema, 'properties' | 'required'>> {
  return {
    properties: Object.assign({}, ...schemas.map(({ properties }) => properties)) as Record<string, Schema>,
    required: schemas.flatMap(({ required = [] }) => required),
  };
}

/** What lists that are read page by page have in common, under the name `Page`. */
export const page: Schema = { properties: pageParameters, required: [] };

/** What an operation takes besides a page of a list, and whether it takes one. */
export function besidesPage({ properties = {}, required = [] }: Schema) {
  const own = Object.entries(properties).filter(
    ([name, one]) => JSON.stringify(page.properties![name]) !== JSON.stringify(one),
  );
  const isPage = Object.keys(properties).length - own.length === 2;
  return { isPage, properties: isPage ? Object.fromEntries(own) : properties, required };
}

/** The name of the schema that one refers to. */
export function refName({ $ref = '' }: Schema): string {
  return $ref.split('/').at(-1)!;
}

/** What a field is about, unless its name says it: `billingId` is the id of the billing record. */
export function aboutField(name: string, { description }: Schema): string | undefined {
  return /[a-z]Id$/.test(name) && /^id of the [\w ]+$/.test(description ?? '') ? undefined : description;
}

/** What a schema says, without what people read. */
export function meaningOf(schema: Schema): string {
  return JSON.stringify({ ...schema, description: undefined, examples: undefined });
}

/** How a language writes types. */
export type Language = {
  /** By their names in JSON Schema. */
  plain: Record<string, string>;
  named(name: string): string;
  /** One of some texts. */
  values(texts: string[]): string;
  list(item: string): string;
  /** `name` is that of an object that has none of its own. */
  object(schema: Schema, name: string): string;
};

/** The type of a schema in a language that writes alternatives with bars between. */
export function typeIn(language: Language, schema: Schema, name: string): string {
  if (schema.$ref) return language.named(refName(schema));
  if (schema.enum) return language.values(schema.enum.map((value) => JSON.stringify(value)));
  if (schema.anyOf) return schema.anyOf.map((one) => typeIn(language, one, name)).join(' | ');
  const types = [schema.type ?? []].flat().map((type) => {
    if (type === 'array') return language.list(typeIn(language, schema.items!, name));
    return type === 'object' ? language.object(schema, name) : language.plain[type];
  });
  if (types.length === 0 || types.includes(undefined))
    throw new Error(`no type is known for ${JSON.stringify(schema)}`);
  return types.join(' | ');
}

/** What an operation does, and the permissions that it needs. */
export function aboutOf({ summary, permissions }: ClientOperation): string {
  return `${summary}${permissions.length > 0 ? ` (${permissions.map((one) => `\`${one}\``).join(', ')})` : ''}.`;
}

export function upperFirst(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
