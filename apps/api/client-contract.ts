import { writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import type { Operation } from '../../shared/route.ts';
import { routes } from './routes/index.ts';

// What the schemas of the OpenAPI document use; anything else ends the generator, and is then to be added.
type Schema = {
  type?: string | string[];
  description?: string;
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: boolean;
};
type Side = 'input' | 'output';

const file = new URL('../../shared/client/contract.ts', import.meta.url);

/** The client's types: what each operation of the OpenAPI document takes and answers, as TypeScript. */
export async function renderContract(): Promise<string> {
  const operations = routes.flatMap((route: Operation) => [
    operationType(route),
    ...(route.alternative ? [operationType(route, route.alternative.type)] : []),
  ]);
  const text = [
    '// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.',
    '',
    '/** What each operation takes (its path, query and body in one object) and answers. */',
    `export interface Contract {\n${operations.join('\n')}\n}`,
  ].join('\n');
  return format(text, { ...(await resolveConfig(file)), parser: 'typescript' });
}

function operationType({ method, path, summary, permission, params, query, body, response }: Operation, as?: string) {
  const inputs = [params, query, body].filter((schema) => schema !== undefined) as Schema[];
  const names = inputs.flatMap((schema) => Object.keys(schema.properties ?? {}));
  // A client sends them as one object, and tells them apart by the path's braces.
  if (new Set(names).size < names.length) throw new Error(`${method} ${path} has two inputs of one name`);
  const properties = Object.assign({}, ...inputs.map((schema) => schema.properties)) as Record<string, Schema>;
  // The client says by its Accept header which form it wants.
  delete properties.format;
  const required = inputs.flatMap((schema) => schema.required ?? []).filter((name) => !isPreset(properties[name]));
  const about = `${summary}${permission ? ` (\`${permission}\`)` : ''}.`;
  return `/** ${about} */
    '${method} ${path}${as ? ` as ${as}` : ''}': {
      input: ${typeOf({ type: 'object', properties, required, additionalProperties: false }, 'input')};
      output: ${as ? 'string' : typeOf(response, 'output')};
    };`;
}

function isPreset(schema: Schema | undefined): boolean {
  return schema !== undefined && 'default' in schema;
}

function typeOf(schema: Schema, side: Side): string {
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const types = [schema.type ?? []].flat().map((type) => oneType(type, schema, side));
  if (types.length === 0) throw new Error(`no type is known for ${JSON.stringify(schema)}`);
  return types.join(' | ');
}

function oneType(type: string, schema: Schema, side: Side): string {
  switch (type) {
    case 'string':
    case 'boolean':
    case 'null':
      return type;
    case 'integer':
    case 'number':
      return 'number';
    case 'array':
      return `Array<${typeOf(schema.items!, side)}>`;
    case 'object':
      return schema.properties ? `{ ${fieldsOf(schema, side).join('\n')} }` : 'Record<string, unknown>';
    default:
      throw new Error(`no type is known for ${type}`);
  }
}

function fieldsOf({ properties = {}, required = [] }: Schema, side: Side): string[] {
  return Object.entries(properties).map(([name, schema]) => {
    const optional = !required.includes(name);
    // What is undefined is not sent.
    const type = typeOf(schema, side) + (optional && side === 'input' ? ' | undefined' : '');
    const about = schema.description ? `/** ${schema.description} */\n` : '';
    return `${about}${name}${optional ? '?' : ''}: ${type};`;
  });
}

if (import.meta.main) writeFileSync(file, await renderContract());
