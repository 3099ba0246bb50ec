import type { TSchema } from 'typebox';

type Schema = {
  type?: string | string[];
  examples?: unknown[];
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  items?: Schema;
};

/** An example value of a schema for the OpenAPI document, built from the examples of its parts. */
export function exampleOf(typeboxSchema: TSchema): unknown {
  const schema = typeboxSchema as Schema;
  const { type, examples, default: defaultValue, const: constant, enum: choices, properties, items } = schema;
  const value = examples?.[0] ?? defaultValue ?? constant ?? choices?.[0];
  if (value !== undefined) return value;
  switch (Array.isArray(type) ? type[0] : type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(properties ?? {}).map(([name, property]) => [name, exampleOf(property as TSchema)]),
      );
    case 'array':
      return [exampleOf(items as TSchema)];
    case 'boolean':
      return false;
    default:
      throw new Error(`a schema has no example: ${JSON.stringify(schema)}`);
  }
}
