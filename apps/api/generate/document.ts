import { withComponents } from '../../../shared/contract/components.ts';
import { titled } from '../../../shared/contract/openapi.ts';
import { webhookData } from '../../../shared/contract/webhook-events.ts';
import type { Operation } from '../../../shared/contract/route.ts';
import { nextCursor, pageParameters } from '../http/pages.ts';

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

/** A schema under its name. */
export type Named = { name: string; schema: Schema };

/** What types have all of, and more, by their names. */
export type Bases = ReadonlyMap<string, Named | undefined>;

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
  const bases: Bases = new Map(Object.keys(named).map((name) => [name, baseOf(named, name)]));
  sayOnce({ schemas: named, bases, queries: value.operations.map(({ query }) => query) });
  return { ...value, bases, events: value.events as Record<string, Schema>, schemas: named };
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

/** What a field means is said where its name first has that meaning: in a request that makes something, or else in the first type. */
function sayOnce({
  schemas,
  bases,
  queries,
}: {
  schemas: Record<string, Schema>;
  bases: Bases;
  queries: Schema[];
}): void {
  const makes = (name: string) => /^(?!Update).*Request$/.test(name);
  const said = new Set<string>();
  const visit = ({ properties = {}, items }: Schema, isMaker: boolean, base: Schema = {}): void => {
    for (const [name, field] of Object.entries(properties).filter(([name]) => !(name in (base.properties ?? {})))) {
      const text = `${name}: ${field.description}`;
      if (said.has(text) && !isMaker) delete field.description;
      said.add(text);
      visit(field, isMaker);
    }
    if (items) visit(items, isMaker);
  };
  const names = Object.keys(schemas);
  for (const name of [...names.filter(makes), ...names.filter((name) => !makes(name))])
    visit(schemas[name]!, makes(name), bases.get(name)?.schema);
  for (const query of queries) visit(query, false, page);
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

/** What answers that are a page of a list have in common, under the name `NextPage`. */
export const nextPage: Schema = { properties: { nextCursor }, required: [] };

/**
 * A type that has all that a schema says but for some fields, which are left: `NextPage` of a page, or another schema. A request
 * has more than requests alone.
 */
function baseOf(schemas: Record<string, Schema>, name: string): Named | undefined {
  const whole = schemas[name]!;
  const sizeOf = ({ properties = {} }: Schema) => Object.keys(properties).length;
  const candidates = Object.entries(schemas).map(([name, schema]) => ({ name, schema }));
  return [{ name: 'NextPage', schema: nextPage }, ...candidates.filter(({ schema }) => sizeOf(schema) > 2)]
    .filter((one) => one.name.endsWith('Request') === name.endsWith('Request'))
    .filter(({ schema }) => sizeOf(schema) < sizeOf(whole))
    .filter(({ schema }) =>
      Object.keys(schema.properties!).every((field) => fieldText(schema, field) === fieldText(whole, field)),
    )
    .toSorted((a, b) => sizeOf(b.schema) - sizeOf(a.schema))[0];
}

function fieldText({ properties = {}, required = [] }: Schema, field: string): string {
  return JSON.stringify([{ ...properties[field], examples: undefined }, required.includes(field)]);
}

/** The name of the schema that one refers to. */
export function refName({ $ref = '' }: Schema): string {
  return $ref.split('/').at(-1)!;
}

/**
 * What a field is about, unless its name says it: `billingId` is the id of the billing record, `id` that of what has it, and
 * `createdAt` when that was made.
 */
export function aboutField(name: string, { description = '' }: Schema): string | undefined {
  const isId = /(^id|[a-z]Id)$/.test(name) && /^id of the [\w ]+$/.test(description);
  const isTime = /^when (it was made|it last changed|its settings last changed), RFC 3339 in UTC$/.test(description);
  return isId || (isTime && /^(created|updated)At$/.test(name)) ? undefined : description || undefined;
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
