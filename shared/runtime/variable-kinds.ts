import { readAllowedTarget } from '../values/webhook-target.ts';

/** One environment variable: what it is (its line in the configuration reference), its default, and how it is read. */
export type Variable<T> = {
  default?: string;
  about: string;
  /** Whether `NAME_COMMAND` may name a command that prints the value. */
  byCommand?: true;
  parse: (given: string) => T;
};

/** How a value of each kind is read; `of` is what the line of its variable says beside the kind. */
const kinds = {
  text: (given: string) => given,
  /** Text that must be set. */
  needed: (given: string) => given,
  /** The address of an HTTP server, without a slash at its end. */
  url(given: string) {
    const parsed = URL.parse(given);
    if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.search || parsed.hash)
      throw new Error('must be an address like https://host:port');
    return given.replace(/\/+$/, '');
  },
  /** A key of 32 bytes, which a command may print. */
  key(given: string) {
    const bytes = Buffer.from(given, 'base64');
    if (bytes.length !== 32) throw new Error('must be 32 bytes in base64, as `openssl rand -base64 32` makes them');
    return bytes;
  },
  /** A whole number within bounds, both included. */
  integer(given: string, of: string) {
    const [min = 0, max = 0] = of.split('..').map(Number);
    const number = /^\d+$/.test(given) ? Number(given) : NaN;
    if (!(number >= min && number <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
    return number;
  },
  /** A share, from 0 to 1. */
  ratio(given: string) {
    const share = /^(\d+(\.\d*)?|\.\d+)$/.test(given) ? Number(given) : NaN;
    if (!(share <= 1)) throw new Error('must be a number from 0 to 1');
    return share;
  },
  flag(given: string) {
    if (given !== 'true' && given !== 'false') throw new Error('must be true or false');
    return given === 'true';
  },
  choice(given: string, of: string) {
    const choices = of.split('|');
    if (!choices.includes(given))
      throw new Error(`must be one of ${choices.map((each) => each || 'nothing').join(', ')}`);
    return given;
  },
  /** Texts separated by commas. */
  list: (given: string) => itemsOf(given, '', (item) => item),
  /** Web origins separated by commas. */
  origins: (given: string) =>
    itemsOf(given, 'origins like https://app.example.com', (text) =>
      /^https?:/.test(text) && URL.parse(text)?.origin === text ? text : undefined,
    ),
  /** Targets that webhooks may have, separated by commas. */
  targets: (given: string) =>
    itemsOf(given, 'targets like team_…=receiver.internal:443, or *=… for all teams', readAllowedTarget),
  /** Groups of people with what they may do, separated by commas. */
  groups: (given: string) =>
    new Map(
      itemsOf(given, 'groups like admins=*, or support=workspace:read key:read', (text) => {
        const [, group, rights] = /^(.+?)\s*=\s*([*a-z: ]+)$/.exec(text) ?? [];
        return group && rights ? ([group, rights.split(/ +/)] as const) : undefined;
      }),
    ),
  /** Times in seconds, separated by commas: some, and at most 50. */
  seconds(given: string) {
    const wanted = 'at most 50 whole numbers from 1 to 604800';
    const times = itemsOf(given, wanted, (text) =>
      /^[1-9]\d{0,5}$/.test(text) && Number(text) <= 604_800 ? Number(text) : undefined,
    );
    if (times.length === 0 || times.length > 50) throw new Error(`must name ${wanted}`);
    return times;
  },
};
// Of the kinds that need not be set. A choice has its first by default.
const presets: Partial<Record<string, string>> = {
  text: '',
  list: '',
  origins: '',
  targets: '',
  groups: '',
  flag: 'false',
};

type HeadOf<Line> = Line extends `${infer Head}: ${string}` ? Head : never;
type WordOf<Head> = Head extends `${infer Word} ${string}` ? Word : Head;
type Each<Choices> = Choices extends `${infer First}|${infer Others}` ? First | Each<Others> : Choices;
type ValueOf<Head> = Head extends `choice ${infer Choices}`
  ? Each<Choices>
  : WordOf<Head> extends infer Word extends keyof typeof kinds
    ? ReturnType<(typeof kinds)[Word]>
    : WordOf<Head> extends `${infer Word extends keyof typeof kinds}?`
      ? ReturnType<(typeof kinds)[Word]> | undefined
      : never;

/**
 * Reads variables from lines: `kind of = default: about`. `kind?` is one that may be empty, which is its default. `of` are the bounds of
 * an integer, `1..10`, or what there is to choose from, `a|b`.
 */
export function variablesOf<const Lines extends Record<string, string>>(
  lines: Lines,
): { [Name in keyof Lines]: Variable<ValueOf<HeadOf<Lines[Name]>>> } {
  const entries = Object.entries(lines).map(([name, line]) => [name, variableOf(line)]);
  return Object.fromEntries(entries) as ReturnType<typeof variablesOf<Lines>>;
}

function variableOf(line: string): Variable<unknown> {
  const [, kind = '', mayBeEmpty, of = '', given, about = ''] =
    /^(\w+)(\?)?(?: (\S+?))?(?: = (\S+))?: (.+)$/.exec(line) ?? [];
  const read = kinds[kind as keyof typeof kinds];
  const preset = mayBeEmpty ? '' : (given ?? (kind === 'choice' ? of.split('|')[0] : presets[kind]));
  return {
    about,
    ...(preset !== undefined && { default: preset }),
    ...(kind === 'key' && { byCommand: true }),
    parse: (text) => (mayBeEmpty && text === '' ? undefined : read(text, of)),
  };
}

/** Items separated by commas, each as `read` gives it. `wanted` says what they must be. */
function itemsOf<Item>(given: string, wanted: string, read: (text: string) => Item | undefined): Item[] {
  const texts = given.split(',').map((text) => text.trim());
  return texts.filter(Boolean).map((text) => {
    const item = read(text);
    if (item === undefined) throw new Error(`must name ${wanted}, not ${text}`);
    return item;
  });
}
