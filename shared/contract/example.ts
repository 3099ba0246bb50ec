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

/** A value of a schema, as the OpenAPI document shows it: put together from the examples of what it is made of. */
export function exampleOf(of: TSchema): unknown {
  const schema = of as Schema;
  const { type, examples, default: byDefault, const: only, enum: choices, properties, items } = schema;
  const value = examples?.[0] ?? byDefault ?? only ?? choices?.[0];
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
