// `%`, and all characters that mean the same whether they are encoded or not (RFC 3986: letters, digits, `-`, `.`, `_`).
// `%25` before the two digits encodes the `%` again, as often as it stands there. No two matches share a character.
const encoded = /%(?:25)*(2[5DE]|3[0-9]|[46][1-9A-F]|5[0-9AF]|7[0-9A])/gi;
const MOST_ROUNDS = 5;

/**
 * Decodes the percent-encoded letters, digits, `-`, `.`, `_` and `%` of a text, also where they were encoded several times.
 * All else stays as it is: no character that it gives needs care. `undefined`: after several rounds there was still
 * something to decode, which no program writes.
 */
export function decodeUnreserved(text: string): string | undefined {
  let decoded = text;
  for (let round = 0; decoded.search(encoded) >= 0; round++) {
    if (round === MOST_ROUNDS) return undefined;
    decoded = decoded.replace(encoded, (_, digits: string) => String.fromCharCode(parseInt(digits, 16)));
  }
  return decoded;
}

const dotSegment = /(?:^|[/\\]|%2f|%5c)\.{1,2}(?:[/\\;]|%2f|%5c|%3b|$)/i;

/** Whether a path holds a segment `.` or `..`, or one that some program takes for it: encoded, after `\`, before `;`. */
export function holdsDotSegment(path: string): boolean {
  if (!path.includes('.') && !path.includes('%')) return false;
  const decoded = decodeUnreserved(path);
  return decoded === undefined || dotSegment.test(decoded);
}
