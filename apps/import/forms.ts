import { PREFIX_PATTERN } from '../../shared/values/key-text.ts';
import { readCsv, type CsvRecord } from './read-csv.ts';
import { readEntries, readLines, type Entry } from './read-json.ts';

/** A key as the endpoint takes it, without the workspace. */
export type Item = Record<string, unknown> & { name?: unknown };
/** A key of a file: where it stands, what of it keytally has no place for; or why it is left out, as it should be, or refused. */
export type Row = { place: string; lost: string[] } & ({ item: Item } | { skipped: string } | { refused: string });

type Read = (pieces: AsyncIterable<string>) => AsyncGenerator<Row>;

/** How each form of file is read. docs/move-here.md says what becomes of each field. */
export const forms: Record<string, Read> = {
  unkey: (pieces) => rowsOf(readCsv(pieces), ofUnkey, lineOf),
  litellm: (pieces) => rowsOf(readCsv(pieces), ofLiteLlm, lineOf),
  kong: (pieces) => rowsOf(readEntries(pieces), ofKong, entryOf),
  'api-gateway': (pieces) => rowsOf(readEntries(pieces), ofApiGateway, entryOf),
  keys: (pieces) =>
    rowsOf(
      readLines(pieces),
      ({ value }) => [{ item: value, lost: [] }],
      ({ number }) => `line ${number}`,
    ),
};

/** The form that the name of a file begins with. */
export function formOf(name: string): string | undefined {
  return Object.keys(forms).find((form) => name.startsWith(form));
}

type Found = { lost: string[] } & ({ item: Item } | { skipped: string } | { refused: string });
const lineOf = ({ line }: CsvRecord) => `line ${line}`;
const entryOf = ({ number }: Entry) => `entry ${number}`;

async function* rowsOf<Source>(
  sources: AsyncGenerator<Source>,
  read: (source: Source) => Found[],
  placeOf: (source: Source) => string,
): AsyncGenerator<Row> {
  for await (const source of sources) {
    let found: Found[];
    try {
      found = read(source);
    } catch (error) {
      found = [{ refused: (error as Error).message, lost: [] }];
    }
    for (const one of found) yield { place: placeOf(source), ...one };
  }
}

// The columns of Unkey's table of keys. A hash is the SHA-256 in base64.
function ofUnkey({ fields }: CsvRecord): Found[] {
  const of = (...names: string[]) => firstOf(fields, names);
  if (of('deleted_at_m', 'deleted_at')) return [{ skipped: 'it is deleted', lost: [] }];
  const perSecond = Number(of('ratelimit_duration') ?? 0) === 1_000 ? Number(of('ratelimit_limit')) : undefined;
  const start = of('start') ?? '';
  const prefix = start.slice(0, Math.max(0, start.lastIndexOf('_')));
  const plain = of('key', 'plaintext');
  return orExpired({
    item: {
      name: nameOf(of('name'), of('start'), 'Unkey key'),
      ...(plain ? { key: plain } : { hash: { algorithm: 'sha256', encoding: 'base64', value: of('hash') ?? '' } }),
      ...(new RegExp(PREFIX_PATTERN).test(prefix) && { prefix }),
      ...given('customerId', of('external_id', 'owner_id', 'identity_id')),
      ...given('expiresAt', timeOf('expires', of('expires'))),
      ...given('metadata', objectOf('meta', of('meta'))),
      ...given('rateLimitPerSecond', perSecond),
      enabled: isTrue(of('enabled') ?? 'true'),
    },
    lost: [
      ...['remaining_requests', 'refill_amount'].filter((name) => of(name)),
      ...(of('ratelimit_limit') && perSecond === undefined ? ['ratelimit_limit'] : []),
    ],
  });
}

// The columns of LiteLLM_VerificationToken. A token is the SHA-256 in hex.
function ofLiteLlm({ fields }: CsvRecord): Found[] {
  const of = (...names: string[]) => firstOf(fields, names);
  const token = of('token') ?? '';
  const [team, metadata] = [of('team_id'), objectOf('metadata', of('metadata'))];
  const limits = ['max_budget', 'tpm_limit', 'rpm_limit', 'max_parallel_requests', 'models'];
  return orExpired({
    item: {
      name: nameOf(of('key_alias'), of('key_name'), 'LiteLLM key'),
      ...(token.startsWith('sk-') ? { key: token } : { hash: { algorithm: 'sha256', encoding: 'hex', value: token } }),
      ...given('customerId', of('user_id') ?? team),
      ...given('expiresAt', timeOf('expires', of('expires'))),
      ...((metadata || team) && { metadata: { ...metadata, ...given('team_id', team) } }),
      enabled: !isTrue(of('blocked') ?? 'false'),
    },
    lost: limits.filter((name) => !['', '{}', '[]', '{"{}"}'].includes(of(name) ?? '')),
  });
}

// Consumers with their credentials, as decK writes them; or credentials, as the Admin API lists them.
function ofKong({ list, value }: Entry): Found[] {
  if (list === 'consumers') {
    const credentials = value['keyauth_credentials'];
    const lost = ['basicauth_credentials', 'jwt_secrets', 'hmacauth_credentials', 'oauth2_credentials', 'acls'];
    const found = Array.isArray(credentials) ? credentials.flatMap((one: unknown) => ofKongKey(one, value)) : [];
    found[0]?.lost.push(...lost.filter((name) => value[name] !== undefined));
    return found;
  }
  if (list !== 'keyauth_credentials' && list !== 'data' && list !== '') return [];
  const { consumer } = value;
  return ofKongKey(
    value,
    typeof consumer === 'string' ? { username: consumer } : ((consumer ?? {}) as Record<string, unknown>),
  );
}

function ofKongKey(credential: unknown, consumer: Record<string, unknown>): Found[] {
  const { key, tags, ttl } = credential as Record<string, unknown>;
  const { username, custom_id, id } = consumer;
  return [
    {
      item: {
        name: nameOf(username, custom_id, 'Kong key'),
        key,
        ...given('customerId', textOf(custom_id) ?? textOf(username) ?? textOf(id)),
        ...(Array.isArray(tags) && tags.length > 0 && { metadata: { tags: tags as unknown[] } }),
      },
      lost: typeof ttl === 'number' && ttl > 0 ? ['ttl'] : [],
    },
  ];
}

// `aws apigateway get-api-keys --include-values`.
function ofApiGateway({ list, value }: Entry): Found[] {
  if (list !== 'items' && list !== 'item' && list !== '') return [];
  const { value: key, name, customerId, description, tags, enabled, stageKeys } = value;
  const metadata = { ...given('description', textOf(description)), ...(tags as object | undefined) };
  return [
    {
      item: {
        name: nameOf(name, 'API Gateway key'),
        key,
        ...given('customerId', textOf(customerId)),
        ...(Object.keys(metadata).length > 0 && { metadata }),
        enabled: enabled !== false,
      },
      lost: Array.isArray(stageKeys) && stageKeys.length > 0 ? ['stageKeys'] : [],
    },
  ];
}

function orExpired(found: { item: Item; lost: string[] }): Found[] {
  const { expiresAt } = found.item;
  return [typeof expiresAt === 'number' && expiresAt <= Date.now() ? { skipped: 'it has expired', lost: [] } : found];
}

/** The first of these columns that has a value. Databases write NULL in three ways. */
function firstOf(fields: Record<string, string>, names: string[]): string | undefined {
  return names.map((name) => fields[name]).find((value) => value !== undefined && !['', '\\N', 'NULL'].includes(value));
}

function given(name: string, value: unknown): Record<string, unknown> {
  return value === undefined ? {} : { [name]: value };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function nameOf(...names: unknown[]): string {
  const name = names.find((one): one is string => textOf(one) !== undefined)!;
  // oxlint-disable-next-line no-control-regex -- they are what a name may not hold
  return name.replace(/[\u0000-\u001f\u007f]/g, ' ').slice(0, 128);
}

function isTrue(text: string): boolean {
  return ['1', 't', 'true', 'yes'].includes(text.toLowerCase());
}

function objectOf(column: string, text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined || text === '{}') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Told below.
  }
  throw new Error(`${column} is no JSON object`);
}

/** Milliseconds since 1970 of a number of them, of seconds, or of a date in UTC as databases write it. */
function timeOf(column: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text) < 100_000_000_000 ? Number(text) * 1_000 : Number(text);
  const time = Date.parse(/(Z|[+-]\d\d(:?\d\d)?)$/.test(text) ? text : `${text.replace(' ', 'T')}Z`);
  if (Number.isNaN(time)) throw new Error(`${column} is no time`);
  return time;
}
