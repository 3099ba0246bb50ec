// Values of a request or an answer may have fields of any name: they are no schemas.
const VALUES = new Set(['example', 'examples', 'default', 'const', 'enum', 'value']);

/**
 * Moves each object schema that has a title into `schemas`, once, and puts a reference in its place: so generated clients have
 * one type for it. Throws where two that differ have the same title.
 */
export function withComponents<Value>(value: Value): { value: Value; schemas: Record<string, object> } {
  const schemas: Record<string, object> = {};

  function move(node: unknown): unknown {
    if (Array.isArray(node)) return node.map(move);
    if (typeof node !== 'object' || node === null) return node;
    const entries = Object.entries(node).map(([name, inner]) => [name, VALUES.has(name) ? inner : move(inner)]);
    const { title, ...schema } = withType(withoutUnion(Object.fromEntries(entries)));
    if (typeof title !== 'string') return title === undefined ? schema : { title, ...schema };
    const before = schemas[title];
    if (before && JSON.stringify(before) !== JSON.stringify(schema))
      throw new Error(`two different schemas have the title ${title}`);
    schemas[title] = schema;
    return { $ref: `#/components/schemas/${title}` };
  }

  return { value: move(value) as Value, schemas };
}

// Of fixed values without a type, oapi-codegen (Go) makes `interface{}`.
function withType({ enum: values, ...schema }: Record<string, unknown>): Record<string, unknown> {
  if (values === undefined) return schema;
  const isText = Array.isArray(values) && values.every((value) => typeof value === 'string');
  return { ...(isText && { type: 'string' }), enum: values, ...schema };
}

// Most generators know a list of types only as one type and null.
function withoutUnion({ type, ...schema }: Record<string, unknown>): Record<string, unknown> {
  if (type === undefined) return schema;
  if (!Array.isArray(type) || type.filter((one) => one !== 'null').length < 2) return { type, ...schema };
  return { ...schema, anyOf: type.map((one: string) => ({ type: one })) };
}
