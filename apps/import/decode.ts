const NEWLINE = 0x0a;

/** The text of a file without its byte order mark. What is not UTF-8 ends it, after the lines before: names would be damaged. */
export async function* decoded(pieces: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let line = 1;
  for await (const piece of pieces) {
    for (let [from, to] = [0, 0]; from < piece.length; from = to) {
      const newline = piece.indexOf(NEWLINE, from);
      to = newline === -1 ? piece.length : newline + 1;
      yield decode(piece.subarray(from, to));
      if (newline !== -1) line += 1;
    }
  }
  yield decode();

  function decode(bytes?: Buffer): string {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      throw new Error(`line ${line} is not UTF-8; convert the file, such as by iconv -f latin1 -t utf-8`);
    }
  }
}
