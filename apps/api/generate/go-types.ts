import { refName, upperFirst, type Schema } from './document.ts';

/**
 * How a struct's optional fields say "left out": in an answer their zero value does; in a request only where keytally takes it for
 * the same; in a change never, since there a field that is left out stays as it is.
 */
export type Kind = 'answer' | 'request' | 'change';

export type GoTypes = {
  /** The Go type of a schema; `name` is that of an object that has none of its own. */
  typeOf(schema: Schema, name: string, kind: Kind): string;
  /** Declares a struct. */
  declare(name: string, about: string, schema: Schema, kind: Kind): void;
  /** The declarations of all that was asked for, and of what these hold. */
  text(): string;
};

type Field = { name: string; type: string; tag: string; about: string | undefined };

const initialisms = new Set(['api', 'csv', 'id', 'ip', 'ids', 'ips', 'iss', 'jti', 'jwk', 'jwks', 'jwt', 'uri', 'url']);
// Its values have constants; elsewhere the comment of a field lists them.
const enums: Record<string, string> = { 'Decision.status': 'Status' };
// Lists of requests that mean the same empty as left out. Others may not: a token for no workspace is not one for all of them.
const sameWhenEmpty = ['permissions', 'requestedScopes', 'scopes'];

/** A name of the document as an exported name of Go: `apiKeyId` becomes `APIKeyID`. */
export function goName(name: string): string {
  const words = name.match(/IPs|[A-Z]+(?![a-z])|[A-Z]?[a-z\d]+/g) ?? [];
  return words.map((word) => (initialisms.has(word.toLowerCase()) ? upper(word) : upperFirst(word))).join('');
}

/** Collects the Go types of a document's schemas. */
export function makeGoTypes(schemas: Record<string, Schema>): GoTypes {
  const declared = new Map<string, string>();
  // Objects without a name that say the same are one type.
  const unnamed = new Map<string, string>();

  function typeOf(schema: Schema, name: string, kind: Kind): string {
    if (schema.$ref) return component(refName(schema), kind);
    if (schema.anyOf) return union(schema.anyOf, name, kind);
    const [type = '', ...more] = [schema.type ?? []].flat().filter((one) => one !== 'null');
    if (more.length > 0) return union([type, ...more].map((one) => ({ type: one })) as Schema[], name, kind);
    switch (type) {
      case 'string':
        return schema.format === 'date-time' && kind === 'answer' ? 'time.Time' : 'string';
      case 'boolean':
        return 'bool';
      case 'integer':
        return 'int64';
      case 'number':
        return 'float64';
      case 'array':
        return `[]${typeOf(schema.items ?? {}, name.replace(/s$/, ''), kind)}`;
      case 'object':
        return object(schema, name, kind);
      default:
        return schema.const === undefined && schema.enum === undefined ? 'any' : 'string';
    }
  }

  function component(title: string, kind: Kind): string {
    const name = goName(title);
    const own = /^Update.*Request$/.test(title) ? 'change' : title.endsWith('Request') ? 'request' : kind;
    if (!declared.has(name)) declare(name, `${name} is ${aboutOf(title)}.`, schemas[title]!, own);
    return name;
  }

  function object(schema: Schema, name: string, kind: Kind): string {
    const more = schema.additionalProperties;
    if (!schema.properties) return `map[string]${typeof more === 'object' ? typeOf(more, name, kind) : 'any'}`;
    const same = `${kind} ${JSON.stringify({ ...schema, description: undefined, examples: undefined })}`;
    const known = unnamed.get(same);
    if (known) return known;
    unnamed.set(same, name);
    declare(name, `${name} is a part of requests or answers.`, schema, kind);
    return name;
  }

  function union(all: Schema[], name: string, kind: Kind): string {
    const some = all.filter(({ type }) => type !== 'null');
    if (some.length === 1) return typeOf(some[0]!, name, kind);
    if (some.every(({ type }) => ['string', 'integer', 'number'].includes(String(type)))) return 'Amount';
    const objects = some.flatMap((one) => schemas[refName(one)] ?? []);
    if (objects.length < some.length) return 'any';
    const names = objects.flatMap(({ properties = {} }) => Object.keys(properties));
    // Embedded structs that have a field of one name would lose it.
    if (new Set(names).size < names.length) throw new Error(`the forms of ${name} have a field in common`);
    declareEither(name, some, kind);
    return name;
  }

  // Fields of embedded pointers are decoded into the one that has them.
  function declareEither(name: string, some: Schema[], kind: Kind): void {
    const types = some.map((one, i) => typeOf(one, `${name}${i + 1}`, kind));
    const text = [`// ${name} is one of them: the other is nil.`, `type ${name} struct {`];
    declared.set(name, [...text, ...types.map((type) => `\t*${type}`), '}'].join('\n'));
  }

  function declare(name: string, about: string, { properties = {}, required = [] }: Schema, kind: Kind): void {
    if (declared.has(name)) throw new Error(`two Go types have the name ${name}`);
    // Its place comes before those of the types of its fields.
    declared.set(name, '');
    const fields = Object.entries(properties).map(([property, schema]) =>
      fieldOf(property, schema, { owner: name, kind, isRequired: required.includes(property) }),
    );
    declared.set(name, `// ${about}\ntype ${name} struct {\n${linesOf(fields).join('\n')}\n}`);
  }

  type Of = { owner: string; kind: Kind; isRequired: boolean };
  function fieldOf(property: string, schema: Schema, { owner, kind, isRequired }: Of): Field {
    const name = goName(property);
    const plain = enums[`${owner}.${property}`] ?? typeOf(schema, owner.replace(/Request$/, '') + name, kind);
    const isNullable = [schema.type].flat().includes('null') || schema.anyOf?.some(({ type }) => type === 'null');
    const isSameWhenEmpty = kind === 'answer' || sameWhenEmpty.includes(property);
    const mark = markOf(schema, plain, { kind, isRequired, isNullable: isNullable ?? false, isSameWhenEmpty });
    const type = mark === 'Nullable' ? `*Nullable[${plain}]` : `${mark}${plain}`;
    const tag = `\`json:"${property}${isRequired ? '' : ',omitempty'}"\``;
    return { name, type, tag, about: aboutField(schema, plain) };
  }

  return { typeOf, declare, text: () => [...declared.values()].join('\n\n') };
}

type Marked = { kind: Kind; isRequired: boolean; isNullable: boolean; isSameWhenEmpty: boolean };

/** What stands before a field's plain type, so that it can be left out, and be null. */
function markOf(schema: Schema, plain: string, of: Marked): '' | '*' | 'Nullable' {
  const { kind, isRequired, isNullable, isSameWhenEmpty } = of;
  if (isNullable) return kind === 'answer' || isRequired ? '*' : 'Nullable';
  if (isRequired) return '';
  if (kind === 'change') return '*';
  // encoding/json takes an empty list for one that is left out; its "omitzero", which does not, needs Go 1.24.
  if (plain.startsWith('[]')) return isSameWhenEmpty ? '' : '*';
  if (plain.startsWith('map[')) return '';
  if (plain === 'string' || plain === 'Status') return '';
  if (plain === 'bool') return schema.default === true || (kind === 'request' && !('default' in schema)) ? '*' : '';
  if (plain === 'int64') return (schema.minimum ?? 0) > 0 || schema.default === 0 ? '' : '*';
  return plain === 'any' ? '' : '*';
}

function aboutField({ description, enum: values, default: value }: Schema, plain: string): string | undefined {
  const one = values && plain === 'string' ? values.map((value) => JSON.stringify(value)).join(', ') : '';
  const parts = [description, one && `one of ${one}`, value !== undefined && `default ${JSON.stringify(value)}`];
  return parts.filter(Boolean).join('; ') || undefined;
}

// As gofmt has it: names and types of neighbours without a comment between them stand in columns.
function linesOf(fields: Field[]): string[] {
  const lines: string[] = [];
  let block: Field[] = [];
  const end = () => {
    const [names, types] = [widest(block.map(({ name }) => name)), widest(block.map(({ type }) => type))];
    for (const { name, type, tag } of block) lines.push(`\t${name.padEnd(names)} ${type.padEnd(types)} ${tag}`);
    block = [];
  };
  for (const field of fields) {
    if (field.about) {
      end();
      lines.push(`\t// ${field.about}`);
    }
    block.push(field);
  }
  end();
  return lines;
}

function aboutOf(title: string): string {
  if (title.endsWith('Request')) return `what ${goName(title.replace(/Request$/, ''))} takes`;
  if (title.endsWith('Result')) return `what ${goName(title.replace(/Result$/, ''))} answers`;
  return `${/^[AEIOU]/.test(title) ? 'an' : 'a'} ${title} of the OpenAPI document`;
}

function widest(texts: string[]): number {
  return Math.max(0, ...texts.map(({ length }) => length));
}

function upper(word: string): string {
  return word.endsWith('s') && word.length > 2 && !['iss', 'jwks'].includes(word.toLowerCase())
    ? `${word.slice(0, -1).toUpperCase()}s`
    : word.toUpperCase();
}
