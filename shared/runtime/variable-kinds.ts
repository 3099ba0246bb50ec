/** One environment variable: how it is read, what it is when absent, and its line in the README. */
export type Variable<T> = { default?: string; about: string; parse: (text: string) => T };

export function text(about: string, options: { default?: string } = {}): Variable<string> {
  return { about, parse: (given) => given, ...options };
}

export function key(about: string): Variable<Buffer> {
  return { about, parse: masterKey };
}

export function masterKey(given: string): Buffer {
  const bytes = Buffer.from(given, 'base64');
  if (bytes.length !== 32) throw new Error('must be 32 bytes in base64, as `openssl rand -base64 32` makes them');
  return bytes;
}

export function integer(
  about: string,
  { default: value, min, max }: { default: number; min: number; max: number },
): Variable<number> {
  return {
    about,
    default: String(value),
    parse(given) {
      return wholeNumber(given, min, max);
    },
  };
}

export function list(about: string): Variable<string[]> {
  return {
    about,
    default: '',
    parse: (given) =>
      given
        .split(',')
        .map((item) => item.trim())
        .filter(Boolean),
  };
}

export function origins(about: string): Variable<string[]> {
  const variable = list(about);
  return {
    ...variable,
    parse(given) {
      const named = variable.parse(given);
      const wrong = named.find((one) => !/^https?:/.test(one) || URL.parse(one)?.origin !== one);
      if (wrong !== undefined) throw new Error(`must name origins like https://app.example.com, not ${wrong}`);
      return named;
    },
  };
}

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

export function oneOf<const Choice extends string>(
  about: string,
  choices: readonly [Choice, ...Choice[]],
): Variable<Choice> {
  return {
    about,
    default: choices[0],
    parse(given) {
      const choice = choices.find((candidate) => candidate === given);
      if (choice === undefined) throw new Error(`must be one of ${choices.map((one) => one || 'nothing').join(', ')}`);
      return choice;
    },
  };
}

export function wholeNumber(given: string, min: number, max: number): number {
  const value = /^\d+$/.test(given) ? Number(given) : NaN;
  if (!(value >= min && value <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
  return value;
}
