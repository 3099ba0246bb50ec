import { readAllowedTarget, type AllowedTarget } from '../values/webhook-target.ts';

/** One environment variable: what it is (its line in the configuration reference), its default, and how it is read. */
export type Variable<T> = {
  default?: string;
  about: string;
  /** Whether `NAME_COMMAND` may name a command that prints the value. */
  byCommand?: true;
  parse: (given: string) => T;
};

/** Any text, by default none. */
export function text(about: string, preset = ''): Variable<string> {
  return { about, default: preset, parse: (given) => given };
}

/** Text that must be set. */
export function needed(about: string): Variable<string> {
  return { about, parse: (given) => given };
}

/** The address of an HTTP server, without a slash at its end. */
export function url(about: string): Variable<string> {
  return {
    about,
    parse(given) {
      const parsed = URL.parse(given);
      if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.search || parsed.hash)
        throw new Error('must be an address like https://host:port');
      return given.replace(/\/+$/, '');
    },
  };
}

/** A key of 32 bytes, which a command may print. */
export function key(about: string): Variable<Buffer> {
  return {
    about,
    byCommand: true,
    parse(given) {
      const bytes = Buffer.from(given, 'base64');
      if (bytes.length !== 32) throw new Error('must be 32 bytes in base64, as `openssl rand -base64 32` makes them');
      return bytes;
    },
  };
}

/** A whole number within bounds, both included. */
export function integer(
  about: string,
  { default: value, min, max }: { default?: number; min: number; max: number },
): Variable<number> {
  return {
    about,
    ...(value !== undefined && { default: String(value) }),
    parse(given) {
      const number = /^\d+$/.test(given) ? Number(given) : NaN;
      if (!(number >= min && number <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
      return number;
    },
  };
}

/** A share, from 0 to 1. */
export function ratio(about: string): Variable<number> {
  return {
    about,
    default: '0.01',
    parse(given) {
      const share = /^(\d+(\.\d*)?|\.\d+)$/.test(given) ? Number(given) : NaN;
      if (!(share <= 1)) throw new Error('must be a number from 0 to 1');
      return share;
    },
  };
}

/** A variable that may be empty, which is its default. */
export function optional<T>(variable: Variable<T>): Variable<T | undefined> {
  return { ...variable, default: '', parse: (given) => (given === '' ? undefined : variable.parse(given)) };
}

/** Texts separated by commas; by default none. */
export function list(about: string): Variable<string[]> {
  return listOf(about, '', (item) => item);
}

/** Web origins separated by commas; by default none. */
export function origins(about: string): Variable<string[]> {
  return listOf(about, 'origins like https://app.example.com', (text) =>
    /^https?:/.test(text) && URL.parse(text)?.origin === text ? text : undefined,
  );
}

/** Targets that webhooks may have, separated by commas; by default none. */
export function allowedTargets(about: string): Variable<AllowedTarget[]> {
  return listOf(about, 'targets like team_…=receiver.internal:443, or *=… for all teams', readAllowedTarget);
}

/** Times in seconds, separated by commas: some, and at most 50. */
export function seconds(about: string): Variable<number[]> {
  const wanted = 'at most 50 whole numbers from 1 to 604800';
  const variable = listOf(about, wanted, (text) =>
    /^[1-9]\d{0,5}$/.test(text) && Number(text) <= 604_800 ? Number(text) : undefined,
  );
  return {
    ...variable,
    parse(given) {
      const parsed = variable.parse(given);
      if (parsed.length === 0 || parsed.length > 50) throw new Error(`must name ${wanted}`);
      return parsed;
    },
  };
}

/** Items separated by commas, each as `read` gives it; by default none. `wanted` says what they must be. */
function listOf<Item>(about: string, wanted: string, read: (text: string) => Item | undefined): Variable<Item[]> {
  return {
    about,
    default: '',
    parse(given) {
      const texts = given.split(',').map((text) => text.trim());
      return texts.filter(Boolean).map((text) => {
        const item = read(text);
        if (item === undefined) throw new Error(`must name ${wanted}, not ${text}`);
        return item;
      });
    },
  };
}

/** `true` or `false`, by default `false`. */
export function flag(about: string): Variable<boolean> {
  return {
    about,
    default: 'false',
    parse(given) {
      if (given !== 'true' && given !== 'false') throw new Error('must be true or false');
      return given === 'true';
    },
  };
}

/** One of some choices; the first is the default. */
export function oneOf<const Choice extends string>(
  about: string,
  choices: readonly [Choice, ...Choice[]],
): Variable<Choice> {
  return {
    about,
    default: choices[0],
    parse(given) {
      const choice = choices.find((candidate) => candidate === given);
      if (choice === undefined)
        throw new Error(`must be one of ${choices.map((each) => each || 'nothing').join(', ')}`);
      return choice;
    },
  };
}
