// All characters that mean the same whether they are encoded or not (RFC 3986), and `%`.
const meansTheSame = /[\w.%-]/;
const decodable = Array.from({ length: 0x80 }, (_, code) => meansTheSame.test(String.fromCharCode(code)));
const PERCENT = 0x25;

/**
 * Decodes the percent-encoded letters, digits, `-`, `.`, `_` and `%` of a text, however often they were encoded. All else
 * stays as it is: no character that it gives needs care.
 */
export function decodeUnreserved(text: string): string {
  if (!text.includes('%')) return text;
  // One way through the text, whoever wrote it: a character that is decoded stands where its three stood, and may itself be
  // the end of three.
  const codes = new Uint16Array(text.length);
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    codes[length++] = text.charCodeAt(i);
    while (length >= 3 && codes[length - 3] === PERCENT) {
      const code = hexDigit(codes[length - 2]!) * 16 + hexDigit(codes[length - 1]!);
      if (code >= decodable.length || !decodable[code]) break;
      length -= 2;
      codes[length - 1] = code;
    }
  }
  return Buffer.from(codes.buffer, 0, length * 2).toString('utf16le');
}

// Of any other character more than 15 by far.
function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const letter = code & ~32;
  return letter >= 65 && letter <= 70 ? letter - 55 : decodable.length;
}

// "\", which some take for "/"; two separators at the start ("//a/b" is "/a/b", or "/b" of the host a); a segment that is "."
// or "..", or nothing or one of them before ";".
const ambiguous = /\\|^(?:\/|%2f|%5c){2}|(?:^|\/|%2f|%5c)(?:\.{1,2}(?:\/|%2f|%5c|$)|\.{0,2}(?:;|%3b))/i;

/** Whether two programs may read a path as different ones, however it is encoded: see the pattern. */
export function isAmbiguousPath(path: string): boolean {
  if (!/[.%;\\]|^\/\//.test(path)) return false;
  return ambiguous.test(decodeUnreserved(path));
}
