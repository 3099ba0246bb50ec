import {
  aboutField,
  besidesPage,
  meaningOf,
  nextPage,
  page,
  refName,
  resolved,
  upperFirst,
  type Bases,
  type Named,
  type Schema,
} from './document.ts';

/**
 * How a struct's optional fields say "left out": in an answer their zero value does; in a request only where keytally takes it for
 * the same; in a change never, since there a field that is left out stays as it is.
 */
export type Kind = 'answer' | 'request' | 'change';

/** The Go types of a document. */
export type GoTypes = ReturnType<typeof makeGoTypes>;

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

/** Collects the Go types of a document's schemas: `text` has the declarations of all that was asked for, and of what these hold. */
export function makeGoTypes(schemas: Record<string, Schema>, bases: Bases) {
  const declared = new Map<string, string>();
  // Objects without a name that say the same are one type.
  const unnamed = new Map<string, string>();

  /** The Go type of a schema; `name` is that of an object that has none of its own. */
  function typeOf(schema: Schema, name: string, kind: Kind): string {
    if (schema.$ref) return component(refName(schema), kind);
    if (schema.anyOf) return union(schema.anyOf, name, kind);
    const type = [schema.type].flat().find((one) => one !== 'null');
    if (type === 'array') return `[]${typeOf(schema.items!, name.replace(/s$/, ''), kind)}`;
    if (type === 'object') return schema.properties ? object(schema, name, kind) : 'map[string]any';
    if (schema.format === 'date-time' && kind === 'answer') return 'time.Time';
    const plain = { string: 'string', boolean: 'bool', integer: 'int64' }[String(type)];
    if (plain === undefined) throw new Error(`no type is known for ${JSON.stringify(schema)}`);
    return plain;
  }

  function component(title: string, kind: Kind): string {
    const name = goName(title);
    const own = /^Update.*Request$/.test(title) ? 'change' : title.endsWith('Request') ? 'request' : kind;
    if (declared.has(name)) return name;
    const base = own === 'answer' ? bases.get(title) : undefined;
    // Of others their name says as much.
    const about = title.endsWith('Request') ? `${name} is what ${name.replace(/Request$/, '')} takes.` : '';
    declare(name, about, schemas[title]!, own, base);
    return name;
  }

  function object(schema: Schema, name: string, kind: Kind): string {
    return unnamed.getOrInsertComputed(`${kind} ${meaningOf(schema)}`, () => {
      declare(name, '', schema, kind);
      return name;
    });
  }

  /** Numbers and texts are amounts; of objects, fields of embedded pointers are decoded into the one that has them. */
  function union(all: Schema[], name: string, kind: Kind): string {
    if (all.every(({ type }) => ['string', 'integer', 'number'].includes(String(type)))) return 'Amount';
    const names = all.flatMap((one) => Object.keys(resolved(schemas, one).properties!));
    // Embedded structs that have a field of one name would lose it.
    if (new Set(names).size < names.length) throw new Error(`the forms of ${name} have a field in common`);
    const types = all.map((one) => `\t*${typeOf(one, name, kind)}\n`);
    declared.set(name, `// ${name} is one of them: the other is nil.\ntype ${name} struct {\n${types.join('')}}`);
    return name;
  }

  function declare(name: string, about: string, schema: Schema, kind: Kind, base?: Named): void {
    if (declared.has(name)) throw new Error(`two Go types have the name ${name}`);
    // Its place comes before those of the types of its fields.
    declared.set(name, '');
    const { properties = {}, required = [] } = schema;
    const embedded = base ? [`\t${base.schema === nextPage ? nextPageType() : component(base.name, kind)}`] : [];
    const fields = Object.entries(properties)
      .filter(([property]) => !(property in (base?.schema.properties ?? {})))
      .map(([property, one]) => fieldOf(one, name, { property, kind, isRequired: required.includes(property) }));
    declared.set(
      name,
      `${about && `// ${about}\n`}type ${name} struct {\n${[...embedded, ...linesOf(fields)].join('\n')}\n}`,
    );
  }

  /** A query: which page of a list is said once for all lists. */
  function declareQuery(name: string, about: string, query: Schema): void {
    const { isPage, properties, required } = besidesPage(query);
    if (!isPage) return declare(name, `${name} ${about}`, query, 'request');
    if (!declared.has('Page')) declare('Page', 'Page is which items of a list an answer has.', page, 'request');
    const isAll = Object.keys(properties).length === 0;
    if (isAll) declared.set(name, `// ${name} ${about}\ntype ${name} = Page`);
    const ofPage = { limit: { type: 'integer', minimum: 1 }, cursor: { type: 'string' } };
    if (!isAll) declare(name, `${name} ${about}`, { properties: { ...ofPage, ...properties }, required }, 'request');
  }

  function nextPageType(): string {
    if (!declared.has('NextPage'))
      declare('NextPage', 'NextPage is what a page of a list has, too.', nextPage, 'answer');
    return 'NextPage';
  }

  function fieldOf(schema: Schema, owner: string, place: Place): Field {
    const { property, kind, isRequired } = place;
    const name = goName(property);
    const plain = enums[`${owner}.${property}`] ?? typeOf(schema, owner.replace(/Request$/, '') + name, kind);
    const mark = markOf(schema, plain, place);
    const type = mark === 'Nullable' ? `*Nullable[${plain}]` : `${mark}${plain}`;
    const tag = `\`json:"${property}${isRequired ? '' : ',omitempty'}"\``;
    return { name, type, tag, about: aboutOfField(property, schema, plain) };
  }

  return { typeOf, declareQuery, text: () => [...declared.values()].join('\n\n') };
}

type Place = { property: string; kind: Kind; isRequired: boolean };

/** What stands before a field's plain type, so that it can be left out, and be null. */
function markOf(schema: Schema, plain: string, { property, kind, isRequired }: Place): '' | '*' | 'Nullable' {
  if ([schema.type].flat().includes('null')) return kind === 'answer' || isRequired ? '*' : 'Nullable';
  if (isRequired) return '';
  if (kind === 'change') return '*';
  // encoding/json takes an empty list for one that is left out; its "omitzero", which does not, needs Go 1.24.
  if (plain.startsWith('[]')) return kind === 'answer' || sameWhenEmpty.includes(property) ? '' : '*';
  if (plain === 'string' || plain === 'Status' || plain.startsWith('map[')) return '';
  if (plain === 'bool') return schema.default === true || (kind === 'request' && !('default' in schema)) ? '*' : '';
  return plain === 'int64' && ((schema.minimum ?? 0) > 0 || schema.default === 0) ? '' : '*';
}

function aboutOfField(name: string, schema: Schema, plain: string): string | undefined {
  const { enum: values, default: value } = schema;
  const one = values && plain === 'string' ? values.map((value) => JSON.stringify(value)).join(', ') : '';
  const parts = [
    aboutField(name, schema),
    one && `one of ${one}`,
    value !== undefined && `default ${JSON.stringify(value)}`,
  ];
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

function widest(texts: string[]): number {
  return Math.max(0, ...texts.map(({ length }) => length));
}

function upper(word: string): string {
  return word.endsWith('s') && word.length > 2 && !['iss', 'jwks'].includes(word.toLowerCase())
    ? `${word.slice(0, -1).toUpperCase()}s`
    : word.toUpperCase();
}
