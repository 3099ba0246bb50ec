import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errorSchema } from '../../../shared/contract/schemas.ts';
import { portalRoutes, routes } from '../routes/index.ts';

test('every array, text and open object of every operation has a bound', () => {
  const unbounded: string[] = [];
  for (const { method, path, params, query, body, response } of [...routes, ...portalRoutes]) {
    for (const [part, schema] of Object.entries({ params, query, body, response }))
      if (schema) look(schema, `${method} ${path} ${part}`, unbounded);
  }
  look(errorSchema, 'error', unbounded);
  assert.equal(unbounded, []);
});

const boundedFormats = new Set(['date', 'date-time', 'ip']);

/** Adds each place of a schema that has no bound. */
function look(schema: any, where: string, unbounded: string[]): void {
  const types = [schema.type ?? []].flat();
  const inner = [...(schema.anyOf ?? []), ...(schema.allOf ?? []), ...(schema.oneOf ?? [])];
  if (types.length === 0 && inner.length === 0 && !('enum' in schema) && !('const' in schema))
    unbounded.push(`${where}: any value`);
  if (types.includes('string') && !isBoundedText(schema)) unbounded.push(`${where}: a string without maxLength`);
  if (types.includes('array') && !(schema.maxItems >= 0)) unbounded.push(`${where}: an array without maxItems`);
  const open = schema.additionalProperties !== false || schema.patternProperties;
  if (types.includes('object') && open && !(schema.maxProperties >= 0 && schema['x-limits']))
    unbounded.push(`${where}: an open object without maxProperties and x-limits`);
  for (const [name, property] of Object.entries<any>(schema.properties ?? {}))
    look(property, `${where}.${name}`, unbounded);
  if (types.includes('array')) look(schema.items ?? {}, `${where}[]`, unbounded);
  for (const one of inner) look(one, where, unbounded);
}

function isBoundedText({ maxLength, pattern, format, ...rest }: any): boolean {
  if (maxLength >= 0 || 'enum' in rest || 'const' in rest || boundedFormats.has(format)) return true;
  // Anchored at both ends, and nothing in it repeats without end.
  return /^\^.*\$$/.test(pattern ?? '') && !/(?<!\\)[*+]|\{\d+,\}/.test(pattern.replace(/\[[^\]]*\]/g, '[]'));
}
