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
 * prefix; a word, and a run such as aaaaa or 12345, counts as one of 2,048; every other character as one of those that the text has.
 */
export function bitsOf(text: string): number {
  const [prefix = ''] = /^(?:(?:[A-Za-z]?[a-z]{0,12}|[A-Z]{1,12})[-_.:])+/.exec(text) ?? [];
  const isPrefix = prefix.split(/[-_.:]/).every((part) => part.length <= SHORT || isWord(part));
  const secret = isPrefix ? text.slice(prefix.length) : text;
  const characters = isHex(secret) ? secret.replaceAll('-', '') : secret;
  const runs = runsIn(characters);
  const words = isHex(secret) ? [] : (characters.match(/[A-Z]?[a-z]{3,15}|[A-Z]{4,16}/g) ?? []).filter(isWord);
  const left = characters.length - lengthOf(runs) - lengthOf(words);
  const bits = BITS_OF_WORD * (runs.length + words.length) + Math.max(0, left) * Math.log2(alphabetOf(secret));
  return Math.floor(Math.min(bits, characters.length * Math.log2(distinctIn(characters))) + EPSILON);
}

const BITS_OF_WORD = 11;
const LEAST_RUN = 5;
// As `sk`, `pat` and `live` are; a longer part that is no word may begin a random text.
const SHORT = 4;
// A random text of 16 characters has more.
const FEW = 6;
const EPSILON = 1e-9;

// Random letters seldom look so: vowels between few consonants, a y that is one at the end alone, and one rare letter at most.
function isWord(letters: string): boolean {
  const lower = letters.toLowerCase().replace(/y$/, 'i');
  const isSpoken = /[aeiou]/.test(lower) && !/[^aeiou]{4}|[aeiou]{4}|q(?!u)/.test(lower);
  return letters.length > 3 && isSpoken && (lower.match(/[jqxz]/g) ?? []).length < 2;
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

/** The parts of a text in which each character is the one before, or the next, or the one before it in the alphabet. */
function runsIn(text: string): string[] {
  const runs: string[] = [];
  let [from, step] = [0, 0];
  for (let at = 1; at <= text.length; at++) {
    const next = text.charCodeAt(at) - text.charCodeAt(at - 1);
    const goesOn = at - from === 1 ? Math.abs(next) <= 1 : next === step;
    step = next;
    if (goesOn) continue;
    const isRun = at - from >= LEAST_RUN;
    if (isRun) runs.push(text.slice(from, at));
    from = !isRun && Math.abs(next) <= 1 ? at - 1 : at;
  }
  return runs;
}

function lengthOf(parts: readonly string[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}
