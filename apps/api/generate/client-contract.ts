import { writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import { openApi } from '../../../shared/contract/openapi.ts';
import type { Operation } from '../../../shared/contract/route.ts';
import { displayForms } from '../../../shared/verification/operation.ts';
import { portalRoutes, routes } from '../routes/index.ts';
import {
  aboutOf,
  answersOf,
  bodyOf,
  givenOf,
  operationsOf,
  refName,
  requireDifferentNames,
  type Described,
  type Schema,
} from './document.ts';
import { renderPythonContract } from './python-contract.ts';
import { refusalTable } from './refusals.ts';

const file = new URL('../../../clients/node/contract.ts', import.meta.url);
const portalFile = new URL('../../../apps/console/src/data/portal-contract.ts', import.meta.url);
const pythonFolder = new URL('../../../clients/python/keytally/', import.meta.url);

/** Renders the client's copy of the contract: the types of all operations, the display forms, the refusals. */
export function renderContract(): Promise<string> {
  const entries = Object.entries(refusalTable()).map(([name, error]) => `${name}: ${JSON.stringify(error)}`);
  return render([
    '/** What each operation takes (its path, query and body in one object) and answers. */',
    ...textOf('Contract', typesOf(routes)),
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
  const [own, clients] = [typesOf(portalRoutes), typesOf(routes).named];
  const shared = [...own.named].filter(([name, text]) => clients.get(name) === text).map(([name]) => name);
  for (const name of shared) own.named.delete(name);
  const text = textOf('PortalContract', own);
  const used = shared.filter((name) => text.some((one) => new RegExp(`\\b${name}\\b`).test(one)));
  return render([
    `import type { ${used.join(', ')} } from '../../../../clients/node/contract.ts';`,
    '',
    about,
    ...text,
  ]);
}

async function render(lines: string[]): Promise<string> {
  const head = '// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.';
  return format([head, '', ...lines].join('\n'), { ...(await resolveConfig(file)), parser: 'typescript' });
}

type Types = { entries: string[]; named: Map<string, string> };

/** The interface of all operations, and what its schemas with a name are. */
function textOf(contract: string, { entries, named }: Types): string[] {
  return [`export interface ${contract} {\n${entries.join('\n')}\n}`, ...named.values()].flatMap((one) => [one, '']);
}

function typesOf(operations: readonly Operation[]): Types {
  const document = openApi(operations, []);
  const schemas = document.components.schemas as Record<string, Schema>;
  const described = operationsOf(document);
  const named = new Map<string, string>();
  const entries = operations.flatMap(({ method, path, alternative }) => {
    const one = described[path]![method]!;
    requireDifferentNames(one, schemas);
    return [undefined, ...(alternative ? [alternative.type] : [])].map((as) =>
      operationType(`${method} ${path}`, one, as),
    );
  });
  return { entries, named };

  function operationType(operation: string, one: Described, as: string | undefined): string {
    const [given, body] = [givenOf(one), bodyOf(one)];
    const own: Schema = {
      properties: Object.fromEntries(given.map(({ name, schema }) => [name, schema])),
      required: given.filter(({ required }) => required).map(({ name }) => name),
    };
    const inputs = [
      ...(given.length > 0 || !body ? [objectType(own, true)] : []),
      ...(body ? [typeOf(body, true)] : []),
    ];
    return `/** ${aboutOf(one)} */
    '${operation}${as ? ` as ${as}` : ''}': {
      input: ${inputs.join(' & ')};
      output: ${as ? 'string' : typeOf(answersOf(one)['application/json']!.schema, false)};
    };`;
  }

  function typeOf(schema: Schema, isInput: boolean): string {
    if (schema.$ref) return name(refName(schema), isInput);
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
    const schema = schemas[one]!;
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
