// The Python client's copy of the contract, made from the OpenAPI document: its types, and its operations as methods.
import { operations, VERIFY, VERIFY_BATCH } from '../../../clients/node/operations.ts';
import { displayForms } from '../../../shared/verification/operation.ts';
import { openApi } from '../../../shared/contract/openapi.ts';
import { routes } from '../routes/index.ts';
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
import { refusalTable } from './refusals.ts';

type Method = { name: string; operation: string; input: string; isOptional: boolean; output: string; about: string };

const HEAD = '# Made by `npm run client` from the OpenAPI document; changes here are lost.';
const keywords = new Set(
  `False None True and as assert async await break class continue def del elif else except finally for from global if import in
  is lambda nonlocal not or pass raise return try while with yield`.split(/\s+/),
);

/** Renders the files of the Python client that follow from the contract, by name. */
export function renderPythonContract(): Record<string, string> {
  const document = openApi(routes, []);
  const schemas = document.components.schemas as Record<string, Schema>;
  const described = operationsOf(document);
  const types = makeTypes(schemas);
  const methodOf = (name: string, operation: string): Method => {
    const [verb = '', path = '', , accept = 'application/json'] = operation.split(' ');
    const one = described[path]![verb]!;
    requireDifferentNames(one, schemas);
    const input = inputOf(one, types.resolve);
    return {
      name: snakeCase(name),
      operation,
      input: types.add(`${upperFirst(one.operationId)}Input`, input),
      isOptional: (input.required ?? []).length === 0,
      output: types.typeOf(answersOf(one)[accept]!.schema, ''),
      about: aboutOf(one),
    };
  };
  const groups = Object.entries(operations).map(([group, named]) => ({
    name: group,
    methods: Object.entries(named).map(([name, operation]) => methodOf(name, operation)),
  }));
  // Their methods are written by hand.
  for (const operation of [VERIFY, VERIFY_BATCH]) methodOf('verify', operation);
  types.add('Identity', identityOf(types.resolve({ $ref: '#/components/schemas/Decision' })));
  return { 'types.py': types.render(), '_operations.py': renderOperations(groups), '_contract.py': renderTables() };
}

/** Whose request a guard let pass: the decision, or `UNDECIDED` where it passed while keytally was unavailable. */
function identityOf(decision: Schema): Schema {
  const status = { enum: ['VALID', 'UNDECIDED'] };
  return { ...decision, properties: { ...decision.properties, status } };
}

/** Path, query and body as one object. */
function inputOf(one: Described, resolve: (schema: Schema) => Schema): Schema {
  const body = resolve(bodyOf(one) ?? {});
  const given = givenOf(one);
  const required = (body.required ?? []).filter((name) => !('default' in body.properties![name]!));
  return {
    type: 'object',
    properties: { ...Object.fromEntries(given.map(({ name, schema }) => [name, schema])), ...body.properties },
    required: [...given.filter((one) => one.required).map(({ name }) => name), ...required],
  };
}

/** Collects the types that are used, each under its name. */
function makeTypes(schemas: Record<string, Schema>) {
  const rendered = new Map<string, string>();

  function resolve(schema: Schema): Schema {
    return schema.$ref ? schemas[refName(schema)]! : schema;
  }

  function add(name: string, schema: Schema): string {
    if (rendered.has(name)) return name;
    // A type may hold itself: its name is taken first.
    rendered.set(name, '');
    const text = renderType(name, schema);
    rendered.delete(name);
    rendered.set(name, text);
    return name;
  }

  function renderType(name: string, { properties = {}, required = [], description }: Schema): string {
    const fields = Object.entries(properties).map(([field, schema]) => {
      const type = typeOf(schema, name + upperFirst(field));
      const about = schema.description && upperFirst(schema.description);
      return { field, about, type: required.includes(field) ? type : `NotRequired[${type}]` };
    });
    const isPlain = fields.every(({ field }) => /^[A-Za-z_]\w*$/.test(field) && !keywords.has(field));
    if (!isPlain) {
      const items = fields.flatMap(({ field, type, about }) => [
        ...(about ? [`        # ${about}`] : []),
        `        ${text(field)}: ${forward(type)},`,
      ]);
      return `${name} = TypedDict(\n    ${text(name)},\n    {\n${items.join('\n')}\n    },\n)\n`;
    }
    const lines = fields.flatMap(({ field, type, about }) => [
      `    ${field}: ${type}`,
      ...(about ? [`    ${docstring(about)}`] : []),
    ]);
    const body = [...(description ? [`    ${docstring(description)}`] : []), ...lines];
    return `class ${name}(TypedDict):\n${body.length > 0 ? body.join('\n') : '    pass'}\n`;
  }

  function typeOf(schema: Schema, name: string): string {
    if (schema.$ref) return add(refName(schema), resolve(schema));
    if (schema.enum)
      return `Literal[${schema.enum.map((one) => (typeof one === 'string' ? text(one) : one)).join(', ')}]`;
    if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one, name)).join(' | ');
    const kinds = [schema.type ?? []].flat().map((type) => oneType(type, schema, name));
    if (kinds.length === 0) throw new Error(`no type is known for ${JSON.stringify(schema)}`);
    return kinds.join(' | ');
  }

  function oneType(type: string | null, schema: Schema, name: string): string {
    const simple: Record<string, string> = {
      string: 'str',
      boolean: 'bool',
      null: 'None',
      integer: 'int',
      number: 'float',
    };
    if (type === 'array') return `list[${typeOf(schema.items!, name)}]`;
    if (type === 'object') return schema.properties ? add(name, schema) : 'dict[str, Any]';
    const known = simple[String(type)];
    if (known === undefined) throw new Error(`no type is known for ${type}`);
    return known;
  }

  function render(): string {
    const head = [
      '"""What operations take and answer. The names of fields are those of the API."""',
      '',
      HEAD,
      'from __future__ import annotations',
      '',
      'from typing import Any, Literal',
      '',
      'from typing_extensions import NotRequired, TypedDict',
    ];
    return `${head.join('\n')}\n\n\n${[...rendered.values()].join('\n\n')}`;
  }

  return { add, typeOf, resolve, render };
}

function renderOperations(groups: { name: string; methods: Method[] }[]): string {
  const classes = groups.flatMap(({ name, methods }) =>
    [false, true].map((isAsync) => {
      const [prefix, def, wait] = isAsync ? ['Async', 'async def', 'await '] : ['', 'def', ''];
      const rendered = methods.map(
        ({ name, operation, input, isOptional, output, about }) =>
          `    ${def} ${name}(self, input: types.${input}${isOptional ? ' | None = None' : ''}, **options: Unpack[CallOptions]) -> ${typeName(output)}:
        ${docstring(about)}
        return cast(${text(typeName(output))}, ${wait}self._call(${text(operation)}, input, options))
`,
      );
      return `class ${prefix}${upperFirst(name)}:
    def __init__(self, call: ${prefix}Call) -> None:
        self._call = call

${rendered.join('\n')}`;
    }),
  );
  const all = [false, true].map((isAsync) => {
    const prefix = isAsync ? 'Async' : '';
    const lines = groups.map(({ name }) => `        self.${snakeCase(name)} = ${prefix}${upperFirst(name)}(call)`);
    return `class ${prefix}Operations:
    """Every operation of the API, in groups."""

    def __init__(self, call: ${prefix}Call) -> None:
${lines.join('\n')}
`;
  });
  const head = [
    HEAD,
    'from __future__ import annotations',
    '',
    'from collections.abc import Awaitable, Callable, Mapping',
    'from typing import Any, cast',
    '',
    'from typing_extensions import Unpack',
    '',
    'from keytally import types',
    'from keytally._options import CallOptions',
    '',
    'Input = Mapping[str, Any] | None',
    'Call = Callable[[str, Input, CallOptions], object]',
    'AsyncCall = Callable[[str, Input, CallOptions], Awaitable[object]]',
  ];
  return `${head.join('\n')}\n\n\n${[...classes, ...all].join('\n\n')}`;
}

function renderTables(): string {
  const table = (name: string, about: string, rows: [string, string][]) =>
    [`${name} = {`, ...rows.map(([key, value]) => `    ${text(key)}: ${value},`), '}', docstring(about)].join('\n');
  const refusals = Object.entries(refusalTable()).map(([name, [code, message]]): [string, string] => [
    name,
    `(${code}, ${text(message)})`,
  ]);
  const forms = Object.entries(displayForms).map(([status, form]): [string, string] => [status, text(form)]);
  return `${HEAD}

${table('DISPLAY_FORMS', 'How people read a status; the two limits are temporary blocks.', forms)}

${table('REFUSALS', "The codes and messages of keytally's catalogue of errors for each reason to refuse a request.", refusals)}
`;
}

// A type of the module, lists and literals left as they are.
function typeName(type: string): string {
  return /^[A-Z]\w*$/.test(type) ? `types.${type}` : type;
}

// In a call names must be there already; in text they need not.
function forward(type: string): string {
  const [, inner] = /^NotRequired\[(.*)\]$/s.exec(type) ?? [];
  return inner === undefined ? text(type) : `NotRequired[${text(inner)}]`;
}

// JSON's text is Python's too.
function text(value: string): string {
  return JSON.stringify(value);
}

function docstring(about: string): string {
  const escaped = about.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"');
  return `"""${escaped}${escaped.endsWith('"') ? ' ' : ''}"""`;
}

function upperFirst(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function snakeCase(name: string): string {
  const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return keywords.has(snake) ? `${snake}_` : snake;
}
