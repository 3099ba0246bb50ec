import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { errors } from '../../shared/contract/errors.ts';
import { formats } from '../../shared/contract/validate.ts';

/** The parts of an answer that are checked. */
export type Checked = { status: number; headers: { get(name: string): string | null | undefined }; text: string };

type Content = Record<string, { schema: object }>;
type Described = { responses: Record<string, { content?: Content; headers?: object; 'x-error-codes'?: number[] }> };
type OpenApi = { paths: Record<string, Record<string, Described>>; components: object };

type Contract = ReturnType<typeof readContract>;

// The documents of the servers that a test has started, by their addresses and by their kinds; a program without an API has none.
const contracts = new Map<string, Contract | undefined>();
const documents = new Map<string, Contract | undefined>();
const codes = new Map<number, string>(Object.entries(errors).map(([name, [code]]) => [code, name]));

// What Ajv calls the document.
const DOCUMENT = 'https://keytally.test/openapi.json';

// Sessions are in no document: only the console's cookie gets these errors.
const OF_SESSIONS = new Set<number>(
  (['session_ended', 'session_elsewhere', 'session_unmarked'] as const).map((name) => errors[name][0]),
);

/**
 * Fetches the OpenAPI document of a started server. From then on its answers must agree with it. Servers of one `kind` have the same
 * document, and the first one is asked for it.
 */
export async function learnContract(url: string, kind = url): Promise<void> {
  if (!documents.has(kind)) {
    const response = await fetch(`${url}/openapi.json`);
    documents.set(kind, response.ok ? readContract((await response.json()) as OpenApi) : undefined);
  }
  contracts.set(url, documents.get(kind));
}

/**
 * Throws unless the server's own OpenAPI document allows an answer: no unknown field, no undocumented error code. Writes down
 * the code of an error: a run of all tests must see each code of the catalogue.
 */
export function checkAnswer(origin: string, method: string, path: string, answer: Checked): void {
  if (!contracts.has(origin)) throw new Error(`${origin} has shown no OpenAPI document: who has started it?`);
  const problem = contracts.get(origin)?.(method.toLowerCase(), path, answer);
  if (!problem) return;
  throw new Error(
    `${method} ${path} answered ${answer.status} ${answer.text}\nand that is not as documented: ${problem}`,
  );
}

/** What is wrong with the envelope of an error or with its headers. */
export function envelopeProblem({ status, headers, text }: Checked): string | undefined {
  const { error } = parse(text) as { error?: { code: number; requestId: string } };
  if (!error) return 'it is no envelope';
  if (!codes.has(error.code)) return `${error.code} is not in the catalogue`;
  note(error.code);
  if (Math.floor(error.code / 100) !== status) return 'code and status differ';
  if (headers.get('x-request-id') !== error.requestId) return 'the request id is not that of the header';
  const wanted = { 401: 'www-authenticate', 405: 'allow', 429: 'retry-after', 503: 'retry-after' }[status];
  return wanted && !headers.get(wanted) ? `it has no header ${wanted}` : undefined;
}

/** Headers that every answer must have or must not: its type is never guessed, what may be cached is documented, and none names the server software. */
function headersProblem(path: string, { headers }: Checked, cacheable: boolean): string | undefined {
  const kept =
    cacheable ||
    path === '/docs' ||
    path.startsWith('/docs/') ||
    path.startsWith('/console/assets/') ||
    path === '/openapi.json';
  if (headers.get('x-content-type-options') !== 'nosniff') return 'its type may be guessed (X-Content-Type-Options)';
  if (!kept && headers.get('cache-control') !== 'no-store') return 'it may be kept on its way (Cache-Control)';
  return ['server', 'x-powered-by', 'via'].find((name) => headers.get(name))?.concat(' tells what serves');
}

function readContract({ paths, components }: OpenApi) {
  const ajv = new Ajv2020({ strict: false, allErrors: true, formats });
  ajv.addSchema({ $id: DOCUMENT, components });
  const validators = new Map<object, ValidateFunction>();
  const known = Object.entries(paths).map(([path, methods]) => ({ methods, pattern: patternOf(path) }));

  return function problem(method: string, path: string, answer: Checked): string | undefined {
    if (!answer.headers.get('x-request-id')) return 'it has no X-Request-Id';
    const { methods } = known.find(({ pattern }) => pattern.test(path)) ?? {};
    const operation = methods?.[method];
    const described = (operation ?? methods?.['get'])?.responses[answer.status];
    const wrongHeader = headersProblem(path, answer, 'Cache-Control' in (described?.headers ?? {}));
    if (wrongHeader) return wrongHeader;
    const isProbe = !/\/v1\/|^\/console\//.test(path) && answer.status !== 404;
    if (answer.status >= 400 && !(isProbe && answer.status === 503)) {
      const wrong = envelopeProblem(answer);
      if (wrong) return wrong;
      if (!operation) return undefined;
    }
    // An operation outside the document is an error, except HEAD and the pages.
    if (!operation)
      return method === 'head' || /^\/(docs|console|portal)(\/|$)/.test(path) ? undefined : 'it is no operation';
    noteItems(answer);
    return codeProblem(operation, answer) ?? bodyProblem(operation, answer);
  };

  function codeProblem({ responses }: Described, { status, text }: Checked): string | undefined {
    const known = responses[status]?.['x-error-codes'];
    const { error } = parse(text) as { error?: { code: number } };
    return known && error && !known.includes(error.code) && !OF_SESSIONS.has(error.code)
      ? `${error.code} is none of its errors`
      : undefined;
  }

  function bodyProblem({ responses }: Described, { status, headers, text }: Checked): string | undefined {
    if (status === 304 && responses[304] && text === '') return undefined;
    const type = headers.get('content-type')?.split(';', 1)[0] ?? '';
    const schema = responses[status]?.content?.[type]?.schema;
    if (!schema) return `${status} as ${type || 'nothing'} is not there`;
    if (type !== 'application/json') return undefined;
    let validate = validators.get(schema);
    if (!validate) validators.set(schema, (validate = ajv.compile(inDocument(schema))));
    return validate(JSON.parse(text)) ? undefined : ajv.errorsText(validate.errors);
  }
}

// References to the components are of the document, which Ajv then reads once and not for each schema.
function inDocument(schema: object): object {
  return JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', `"$ref":"${DOCUMENT}#/`)) as object;
}

// Items of a request that stand alone have their errors in an answer of 200.
function noteItems({ text }: Checked): void {
  if (!text.startsWith('{"results":')) return;
  const { results } = parse(text) as { results: { error?: { code: number } }[] };
  for (const { error } of results) if (error) note(error.code);
}

function patternOf(path: string): RegExp {
  const escaped = path.replace(/[.*+?^$()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/\{\w+\}/g, '[^/]+')}$`);
}

function parse(text: string): object {
  try {
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}

/** The file in which a test file writes down the error codes, and types of events, that it has seen. */
export const SEEN_FILE = 'seen';

const seen = new Set<number | string>();

/** Writes down what a test file has seen. */
export function note(one: number | string): void {
  if (seen.has(one)) return;
  seen.add(one);
  const folder = process.env.TEST_FOLDER;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  appendFileSync(join(folder, SEEN_FILE), `${one}\n`);
}
