/** Fewer random bits than these can be tried one after the other by whoever has the hash. */
export const LEAST_BITS = 64;

/** Why a text is no secret, of whatever length it is; undefined where it may be one. It is told, so it repeats nothing of the text. */
export function whyNoSecret(text: string): string | undefined {
  if (references.some((pattern) => pattern.test(text))) return 'is a reference to a secret, not the secret itself';
  return placeholder.test(text) ? 'is a placeholder for a secret' : undefined;
}

// As shells, decK, vaults, templates and Windows write them.
const references = [/^\$\{.*\}$/, /^\$[A-Za-z_]\w*$/, /^\{.*\}$/, /^<.*>$/, /^%\w+%$/, /^\$\(.*\)$/];
const placeholder =
  /^(replace|change[-_]?(me|this|it)|your[-_]|my[-_](api[-_]?)?key|example|placeholder|insert[-_]|todo|dummy|redacted|\*+$|x+$)/i;

/**
 * How many bits of a text whoever knows keys of its kind has to guess, at most. What comes before the last words with a separator is a
 * prefix; a word counts as one of 2,048; of a run such as aaaaa or 12345 two characters count; every other character counts as one of
 * those that the text has.
 */
export function bitsOf(text: string): number {
  const [prefix = ''] = /^(?:(?:[A-Za-z]?[a-z]{0,12}|[A-Z]{1,12})[-_.:])+/.exec(text) ?? [];
  const isPrefix = prefix.split(/[-_.:]/).every((part) => part.length <= SHORT || isWord(part));
  const secret = isPrefix ? text.slice(prefix.length) : text;
  const characters = isHex(secret) ? secret.replaceAll('-', '') : secret;
  const words = isHex(secret) ? [] : (characters.match(/[A-Z]?[a-z]{3,15}|[A-Z]{4,16}/g) ?? []).filter(isWord);
  const others = words.reduce((left, word) => left.replace(word, ''), characters);
  const bits = BITS_OF_WORD * words.length + unexpectedIn(others) * Math.log2(alphabetOf(secret));
  return Math.floor(Math.min(bits, characters.length * Math.log2(distinctIn(characters))) + EPSILON);
}

const BITS_OF_WORD = 11;
// As `sk`, `pat` and `live` are; a longer part that is no word may begin a random text.
const SHORT = 4;
// A random text of 16 characters has more.
const FEW = 6;
const EPSILON = 1e-9;

// Random letters seldom look so: vowels between few consonants, and one rare letter at most.
const odd = /[^aeiouy]{4}|[aeiouy]{4}|q(?!u)|[jqxz].*[jqxz]/i;

function isWord(letters: string): boolean {
  return letters.length > 3 && /[aeiouy]/i.test(letters) && !odd.test(letters);
}

function isHex(text: string): boolean {
  return /^[0-9a-f-]*$/.test(text) || /^[0-9A-F-]*$/.test(text);
}

function alphabetOf(text: string): number {
  if (/^[0-9-]*$/.test(text)) return 10;
  if (isHex(text)) return 16;
  const kinds: [RegExp, number][] = [
    [/[a-z]/, 26],
    [/[A-Z]/, 26],
    [/[0-9]/, 10],
  ];
  const others = new Set(text.replace(/[A-Za-z0-9]/g, '')).size;
  return kinds.reduce((size, [pattern, more]) => size + (pattern.test(text) ? more : 0), others);
}

/** How many different characters a text has, if that is so few that it shows; else more than any alphabet. */
function distinctIn(text: string): number {
  const distinct = new Set(text).size;
  return distinct <= FEW ? Math.max(1, distinct) : 128;
}

/** How many characters of a text do not go on as the two before them did. */
function unexpectedIn(text: string): number {
  const step = (at: number) => text.charCodeAt(at) - text.charCodeAt(at - 1);
  return text.split('').filter((_, at) => at < 2 || Math.abs(step(at)) > 1 || step(at) !== step(at - 1)).length;
}
