import type { openApi } from '../../../shared/contract/openapi.ts';

/** The part of JSON Schema that the OpenAPI document uses. */
export type Schema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  minimum?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: boolean | Schema;
  anyOf?: Schema[];
};
export type Parameter = { name: string; in: 'path' | 'query' | 'header'; required?: boolean; schema: Schema };
type Content = Record<string, { schema: Schema }>;

/** An operation as the document describes it. */
export type Described = {
  operationId: string;
  summary: string;
  tags: string[];
  parameters?: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
  'x-permission'?: string;
  'x-also-permission'?: string;
};

/** The operations of a document, by path and method. */
export function operationsOf({
  paths,
}: Pick<ReturnType<typeof openApi>, 'paths'>): Record<string, Record<string, Described>> {
  return paths as unknown as Record<string, Record<string, Described>>;
}

/** Path and query of an operation. A client chooses JSON or CSV by its Accept header, so `format` is left out. */
export function givenOf({ parameters = [] }: Described): Parameter[] {
  return parameters.filter((one) => one.in !== 'header' && one.name !== 'format');
}

/** The body that an operation takes. */
export function bodyOf({ requestBody }: Described): Schema | undefined {
  return requestBody?.content['application/json']!.schema;
}

/** Throws where path, query and body have a name in common: some clients take them as one object. */
export function requireDifferentNames(described: Described, schemas: Record<string, Schema>): void {
  const body = bodyOf(described);
  const names = [
    ...givenOf(described).map(({ name }) => name),
    ...Object.keys((body?.$ref ? schemas[refName(body)] : body)?.properties ?? {}),
  ];
  if (new Set(names).size < names.length) throw new Error(`${described.operationId} has two inputs of one name`);
}

/** What an operation answers when it is done, by media type. */
export function answersOf({ responses }: Described): Content {
  return Object.entries(responses).find(([status]) => status.startsWith('2'))![1].content!;
}

/** The permissions that an operation needs. */
export function permissionsOf(described: Described): string[] {
  return [described['x-permission'], described['x-also-permission']].filter((one) => one !== undefined);
}

/** What an operation does, and the permissions that it needs. */
export function aboutOf(described: Described): string {
  const needs = permissionsOf(described).map((one) => `\`${one}\``);
  return `${described.summary}${needs.length > 0 ? ` (${needs.join(', ')})` : ''}.`;
}

export function upperFirst(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** The name of the schema that one refers to. */
export function refName({ $ref = '' }: Schema): string {
  return $ref.split('/').at(-1)!;
}
