import { PREFIX_PATTERN } from '../../shared/values/key-text.ts';
import { fieldsOf, readCsv, type CsvRecord } from './read-csv.ts';
import { objectIn, readEntries, readLines, type Entry } from './read-json.ts';

/** A key as the endpoint takes it, without the workspace. */
export type Item = Record<string, unknown> & { name?: unknown };
/** A key of a file: where it stands, what of it keytally has no place for; or why it is left out, as it should be, or refused. */
export type Row = { place: string; lost: string[] } & ({ item: Item } | { skipped: string } | { refused: string });

/** What has expired by `now` is left out. */
type Read = (pieces: AsyncIterable<string>, now: number) => AsyncGenerator<Row>;

/** How each form of file is read. docs/move-here.md says what becomes of each field. */
export const forms: Record<string, Read> = {
  unkey: (pieces, now) =>
    rowsOf(readCsv(pieces, ['hash', 'key', 'plaintext']), (record) => unlessExpired(ofUnkey(record), now), lineOf),
  litellm: (pieces, now) =>
    rowsOf(readCsv(pieces, ['token']), (record) => unlessExpired(ofLiteLlm(record), now), lineOf),
  kong: (pieces) => rowsOf(readEntries(pieces), ofKong, entryOf),
  'api-gateway': (pieces) => rowsOf(readEntries(pieces), ofApiGateway, entryOf),
  keys: (pieces) =>
    rowsOf(
      readLines(pieces),
      (entry) => [{ item: objectIn(entry), lost: [] }],
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
function ofUnkey(record: CsvRecord): Found {
  const fields = fieldsOf(record);
  const of = (...names: string[]) => firstOf(fields, names);
  if (of('deleted_at_m', 'deleted_at')) return { skipped: 'it is deleted', lost: [] };
  const limit = of('ratelimit_limit');
  const perSecond = limit && Number(of('ratelimit_duration')) === 1_000 ? Number(limit) : undefined;
  const start = of('start') ?? '';
  const prefix = start.slice(0, Math.max(0, start.lastIndexOf('_')));
  const plain = of('key', 'plaintext');
  return {
    item: {
      name: nameOf(of('name'), of('start'), 'Unkey key'),
      ...(plain ? { key: plain } : { hash: { algorithm: 'sha256', encoding: 'base64', value: of('hash') ?? '' } }),
      ...(new RegExp(PREFIX_PATTERN).test(prefix) && { prefix }),
      ...given('customerId', of('external_id', 'owner_id', 'identity_id')),
      ...given('expiresAt', timeOf('expires', of('expires'))),
      ...given('metadata', objectOf('meta', of('meta'))),
      ...given('rateLimitPerSecond', perSecond),
      enabled: booleanOf('enabled', of('enabled')) ?? true,
    },
    lost: [
      ...['remaining_requests', 'refill_amount'].filter((name) => of(name)),
      ...(limit && perSecond === undefined ? ['ratelimit_limit'] : []),
    ],
  };
}

// The columns of LiteLLM_VerificationToken. A token is the SHA-256 in hex.
function ofLiteLlm(record: CsvRecord): Found {
  const fields = fieldsOf(record);
  const of = (...names: string[]) => firstOf(fields, names);
  const token = of('token') ?? '';
  const [team, metadata] = [of('team_id'), objectOf('metadata', of('metadata'))];
  const limits = ['max_budget', 'model_max_budget', 'budget_id', 'tpm_limit', 'rpm_limit', 'max_parallel_requests'];
  const rights = ['models', 'allowed_routes', 'permissions'];
  return {
    item: {
      name: nameOf(of('key_alias'), of('key_name'), 'LiteLLM key'),
      ...(token.startsWith('sk-') ? { key: token } : { hash: { algorithm: 'sha256', encoding: 'hex', value: token } }),
      ...given('customerId', of('user_id') ?? team),
      ...given('expiresAt', timeOf('expires', of('expires'))),
      ...((metadata || team) && { metadata: { ...metadata, ...given('team_id', team) } }),
      enabled: !booleanOf('blocked', of('blocked')),
    },
    lost: [...limits, ...rights].filter((name) => !['', '{}', '[]', '{"{}"}'].includes(of(name) ?? '')),
  };
}

// Consumers with their credentials, as decK writes them; or credentials, as the Admin API lists them.
function ofKong(entry: Entry): Found[] {
  const { list } = entry;
  if (!['consumers', 'keyauth_credentials', 'data', ''].includes(list)) return [];
  const value = objectIn(entry);
  if (list === 'consumers') {
    const credentials = value['keyauth_credentials'];
    const others = ['basicauth', 'hmacauth', 'oauth2', 'mtls_auth'].map((kind) => `${kind}_credentials`);
    const lost = [...others, 'jwt_secrets', 'acls', 'groups', 'plugins'];
    const found = Array.isArray(credentials) ? credentials.flatMap((one: unknown) => ofKongKey(one, value)) : [];
    found[0]?.lost.push(...lost.filter((name) => value[name] !== undefined));
    return found;
  }
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
function ofApiGateway(entry: Entry): Found[] {
  if (!['items', 'item', ''].includes(entry.list)) return [];
  const { value: key, name, customerId, description, tags, enabled, stageKeys } = objectIn(entry);
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

function unlessExpired(found: Found, now: number): Found[] {
  const expiresAt = 'item' in found ? found.item['expiresAt'] : undefined;
  return [typeof expiresAt === 'number' && expiresAt <= now ? { skipped: 'it has expired', lost: [] } : found];
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
  // By characters: a name that ends in half of one would be refused.
  // oxlint-disable-next-line no-control-regex -- they are what a name may not hold
  return Array.from(name.replace(/[\u0000-\u001f\u007f]/g, ' '))
    .slice(0, 128)
    .join('');
}

// A guess would enable a key that is blocked, or the other way round.
function booleanOf(column: string, text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined;
  if (['1', 't', 'true', 'y', 'yes', 'on'].includes(text.toLowerCase())) return true;
  if (['0', 'f', 'false', 'n', 'no', 'off'].includes(text.toLowerCase())) return false;
  throw new Error(`${column} is neither true nor false`);
}

function objectOf(column: string, text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined || text === '{}' || text === 'null') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Told below.
  }
  throw new Error(`${column} is no JSON object`);
}

// As RFC 3339 and databases write it: a day, a time of day, an offset.
const instant = /^(\d{4}-\d\d-(\d\d))(?:[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(?:[Zz]|([+-]\d\d)(?::?(\d\d))?)?)?$/;

/** Milliseconds since 1970 of a date of ISO 8601, in UTC unless it has an offset; or of so many digits as Unix times have. */
function timeOf(column: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{10}$/.test(text)) return Number(text) * 1_000;
  if (/^\d{13}$/.test(text)) return Number(text);
  const [, day, ofMonth, time = '00:00', hours = '+00', minutes = '00'] = instant.exec(text) ?? [];
  const at = Date.parse(`${day}T${time}${hours}:${minutes}`);
  // February 30 would be a day of March.
  const isDay = new Date(`${day}T00:00Z`).getUTCDate() === Number(ofMonth);
  if (Number.isNaN(at) || !isDay)
    throw new Error(`${column} is no time such as 2027-01-31T12:00:00Z, nor Unix seconds or milliseconds`);
  return at;
}
