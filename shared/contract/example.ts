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

/**
 * An example value of a schema for the OpenAPI document, built from the examples of its parts. `where` says which schema it
 * is, for the error about a field without an example.
 */
export function exampleOf(typeboxSchema: TSchema, where: string): unknown {
  const schema = typeboxSchema as Schema;
  const { type, examples, default: defaultValue, const: constant, enum: choices, properties, items } = schema;
  const value = examples?.[0] ?? defaultValue ?? constant ?? choices?.[0];
  if (value !== undefined) return value;
  switch (Array.isArray(type) ? type[0] : type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(properties ?? {}).map(([name, property]) => [
          name,
          exampleOf(property as TSchema, `${where}.${name}`),
        ]),
      );
    case 'array':
      return [exampleOf(items as TSchema, `${where}[0]`)];
    case 'boolean':
      return false;
    default:
      throw new Error(`${where} has no example; add \`examples: [...]\` to its schema ${JSON.stringify(schema)}`);
  }
}
