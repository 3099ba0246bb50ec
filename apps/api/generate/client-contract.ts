import { writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import { openApi } from '../../../shared/contract/openapi.ts';
import type { Operation } from '../../../shared/contract/route.ts';
import { displayForms } from '../../../shared/verification/operation.ts';
import { portalRoutes, routes } from '../routes/index.ts';
import { renderPythonContract } from './python-contract.ts';
import { refusalTable } from './refusals.ts';

// The part of JSON Schema that the document uses. The generator throws on anything else: add it here then.
type Schema = {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
};
type Content = Record<string, { schema: Schema }>;
type Described = {
  operationId: string;
  summary: string;
  parameters: { name: string; in: string; required: boolean; schema: Schema }[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, { content?: Content }>;
  'x-permission'?: string;
  'x-also-permission'?: string;
};

const file = new URL('../../../clients/node/contract.ts', import.meta.url);
const portalFile = new URL('../../../apps/console/src/data/portal-contract.ts', import.meta.url);
const pythonFolder = new URL('../../../clients/python/keytally/', import.meta.url);

/** Renders the client's copy of the contract: the types of all operations, the display forms, the refusals. */
export function renderContract(): Promise<string> {
  const entries = Object.entries(refusalTable()).map(([name, error]) => `${name}: ${JSON.stringify(error)}`);
  return render([
    '/** What each operation takes (its path, query and body in one object) and answers. */',
    typesOf('Contract', routes),
    '',
    '/** How people read a status; the two limits are temporary blocks. */',
    `export const displayForms = ${JSON.stringify(displayForms)} as const;`,
    '',
    "/** Why a request is refused: its key's status, or what kept a key from being verified. */",
    'export type Refused = keyof typeof refusals;',
    '',
    "/** The codes and messages of keytally's catalogue of errors for it. */",
    `export const refusals = {${entries.join()}} as const;`,
  ]);
}

/** Renders the types of the operations of the portal, for its page alone: clients have access tokens, which it refuses. */
export function renderPortalContract(): Promise<string> {
  const about = '/** What each operation of the portal takes and answers. */';
  return render([about, typesOf('PortalContract', portalRoutes)]);
}

async function render(lines: string[]): Promise<string> {
  const head = '// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.';
  return format([head, '', ...lines].join('\n'), { ...(await resolveConfig(file)), parser: 'typescript' });
}

/** The interface of all operations, and what its schemas with a name are. */
function typesOf(contract: string, operations: readonly Operation[]): string {
  const { paths, components } = openApi(operations, []);
  const named = new Map<string, string>();
  const entries = operations.flatMap(({ method, path, alternative }) => {
    const described = (paths as unknown as Record<string, Record<string, Described>>)[path]![method]!;
    return [undefined, ...(alternative ? [alternative.type] : [])].map((as) =>
      operationType(method, path, described, as),
    );
  });
  return [`export interface ${contract} {\n${entries.join('\n')}\n}`, ...named.values()].join('\n\n');

  function operationType(method: string, path: string, described: Described, as: string | undefined): string {
    const { summary, parameters, requestBody, responses } = described;
    const needs = [described['x-permission'], described['x-also-permission']]
      .filter(Boolean)
      .map((one) => `\`${one}\``);
    const about = `${summary}${needs.length > 0 ? ` (${needs.join(', ')})` : ''}.`;
    // The client chooses JSON or CSV by its Accept header.
    const given = parameters.filter((one) => one.in !== 'header' && one.name !== 'format');
    const own: Schema = {
      properties: Object.fromEntries(given.map(({ name, schema }) => [name, schema])),
      required: given.filter(({ required }) => required).map(({ name }) => name),
    };
    const inputs = [
      ...(given.length > 0 || !requestBody ? [objectType(own, true)] : []),
      ...(requestBody ? [typeOf(requestBody.content['application/json']!.schema, true)] : []),
    ];
    const answered = Object.entries(responses).find(([status]) => Number(status) < 300)![1].content!;
    return `/** ${about} */
    '${method} ${path}${as ? ` as ${as}` : ''}': {
      input: ${inputs.join(' & ')};
      output: ${as ? 'string' : typeOf(answered['application/json']!.schema, false)};
    };`;
  }

  function typeOf(schema: Schema, isInput: boolean): string {
    if (schema.$ref) return name(schema.$ref.split('/').at(-1)!, isInput);
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
    if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one, isInput)).join(' | ');
    const types = [schema.type ?? []].flat().map((type) => oneType(type, schema, isInput));
    if (types.length === 0) throw new Error(`no type is known for ${JSON.stringify(schema)}`);
    return types.join(' | ');
  }

  function name(one: string, isInput: boolean): string {
    if (named.has(one)) return one;
    // Its place comes before those of the types of its fields.
    named.set(one, '');
    const schema = components.schemas[one] as Schema;
    const about = schema.description ? `/** ${schema.description} */\n` : '';
    // An interface could not be handed on as JSON.
    named.set(one, `${about}export type ${one} = ${typeOf(schema, isInput)};`);
    return one;
  }

  function oneType(type: string, schema: Schema, isInput: boolean): string {
    switch (type) {
      case 'string':
      case 'boolean':
      case 'null':
        return type;
      case 'integer':
      case 'number':
        return 'number';
      case 'array':
        return `Array<${typeOf(schema.items!, isInput)}>`;
      case 'object':
        return schema.properties ? objectType(schema, isInput) : 'Record<string, unknown>';
      default:
        throw new Error(`no type is known for ${type}`);
    }
  }

  function objectType({ properties = {}, required = [] }: Schema, isInput: boolean): string {
    const fields = Object.entries(properties).map(([field, schema]) => {
      const isOptional = !required.includes(field) || (isInput && 'default' in schema);
      // The client leaves out what is undefined.
      const type = typeOf(schema, isInput) + (isOptional && isInput ? ' | undefined' : '');
      const about = schema.description ? `/** ${schema.description} */\n` : '';
      return `${about}${field}${isOptional ? '?' : ''}: ${type};`;
    });
    return `{ ${fields.join('\n')} }`;
  }
}

if (import.meta.main) {
  writeFileSync(file, await renderContract());
  writeFileSync(portalFile, await renderPortalContract());
  for (const [name, text] of Object.entries(renderPythonContract())) writeFileSync(new URL(name, pythonFolder), text);
}
