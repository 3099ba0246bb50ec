import { writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import type { Operation } from '../../../shared/contract/route.ts';
import { displayForms } from '../../../shared/verification/operation.ts';
import { portalRoutes, routes } from '../routes/index.ts';
import { renderPythonContract } from './python-contract.ts';
import { refusalTable } from './refusals.ts';

// The part of JSON Schema that the routes use. The generator throws on anything else: add it here then.
type Schema = {
  type?: string | string[];
  description?: string;
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: boolean;
  anyOf?: Schema[];
};
type Side = 'input' | 'output';

const file = new URL('../../../clients/node/contract.ts', import.meta.url);
const portalFile = new URL('../../../apps/console/src/data/portal-contract.ts', import.meta.url);
const pythonFolder = new URL('../../../clients/python/keytally/', import.meta.url);

/** Renders the client's copy of the contract: the types of all operations, the display forms, the refusals. */
export async function renderContract(): Promise<string> {
  const entries = Object.entries(refusalTable()).map(([name, error]) => `${name}: ${JSON.stringify(error)}`);
  const text = [
    '// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.',
    '',
    '/** What each operation takes (its path, query and body in one object) and answers. */',
    `export interface Contract {\n${operationTypes(routes)}\n}`,
    '',
    '/** How people read a status; the two limits are temporary blocks. */',
    `export const displayForms = ${JSON.stringify(displayForms)} as const;`,
    '',
    "/** Why a request is refused: its key's status, or what kept a key from being verified. */",
    'export type Refused = keyof typeof refusals;',
    '',
    "/** The codes and messages of keytally's catalogue of errors for it. */",
    `export const refusals = {${entries.join()}} as const;`,
  ].join('\n');
  return format(text, { ...(await resolveConfig(file)), parser: 'typescript' });
}

/** Renders the types of the operations of the portal, for its page alone: clients have access tokens, which it refuses. */
export async function renderPortalContract(): Promise<string> {
  const text = [
    '// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.',
    '',
    '/** What each operation of the portal takes and answers. */',
    `export interface PortalContract {\n${operationTypes(portalRoutes)}\n}`,
  ].join('\n');
  return format(text, { ...(await resolveConfig(file)), parser: 'typescript' });
}

function operationTypes(operations: readonly Operation[]): string {
  return operations
    .flatMap((route) => [
      operationType(route),
      ...(route.alternative ? [operationType(route, route.alternative.type)] : []),
    ])
    .join('\n');
}

function operationType(
  { method, path, summary, permission, alsoPermission, params, query, body, response }: Operation,
  as?: string,
) {
  const inputs = [params, query, body].filter((schema) => schema !== undefined) as Schema[];
  const names = inputs.flatMap((schema) => Object.keys(schema.properties ?? {}));
  // The client takes path, query and body as one object, so their names must differ.
  if (new Set(names).size < names.length) throw new Error(`${method} ${path} has two inputs of one name`);
  const properties = Object.assign({}, ...inputs.map((schema) => schema.properties)) as Record<string, Schema>;
  // The client chooses JSON or CSV by its Accept header.
  delete properties.format;
  const required = inputs.flatMap((schema) => schema.required ?? []).filter((name) => !hasDefault(properties[name]));
  const needs = [permission, alsoPermission].filter(Boolean).map((one) => `\`${one}\``);
  const about = `${summary}${needs.length > 0 ? ` (${needs.join(', ')})` : ''}.`;
  return `/** ${about} */
    '${method} ${path}${as ? ` as ${as}` : ''}': {
      input: ${typeOf({ type: 'object', properties, required, additionalProperties: false }, 'input')};
      output: ${as ? 'string' : typeOf(response, 'output')};
    };`;
}

function hasDefault(schema: Schema | undefined): boolean {
  return schema !== undefined && 'default' in schema;
}

function typeOf(schema: Schema, side: Side): string {
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one, side)).join(' | ');
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
    // The client leaves out what is undefined.
    const type = typeOf(schema, side) + (optional && side === 'input' ? ' | undefined' : '');
    const about = schema.description ? `/** ${schema.description} */\n` : '';
    return `${about}${name}${optional ? '?' : ''}: ${type};`;
  });
}

if (import.meta.main) {
  writeFileSync(file, await renderContract());
  writeFileSync(portalFile, await renderPortalContract());
  for (const [name, text] of Object.entries(renderPythonContract())) writeFileSync(new URL(name, pythonFolder), text);
}
