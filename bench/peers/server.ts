// The peers share their environment, and a small server around the one function that differs.
// PORT, on 127.0.0.1; KEYS_FILE gets the keys, one a line, before the server listens.
// KEYS (100); REMAINING, the credits of each key (1,000,000,000: never used up); RATE, its calls per second (a default
// that no load reaches, but calls are still counted).
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';

const { PORT, KEYS_FILE, KEYS = '100', REMAINING = '1000000000', RATE = '1000000000' } = process.env;

export const remaining = Number(REMAINING);
export const ratePerSecond = Number(RATE);

/** Makes the keys and serves POST /api/v1/api-key/verify, which answers whether a call may go on. */
export async function serve(makeKey: (index: number) => Promise<string>, verify: (key: string) => Promise<boolean>) {
  if (!PORT || !KEYS_FILE) throw new Error('PORT and KEYS_FILE are needed');
  const keys = await Promise.all(Array.from({ length: Number(KEYS) }, (_, index) => makeKey(index)));
  writeFileSync(KEYS_FILE, keys.map((key) => `${key}\n`).join(''), { mode: 0o600 });

  const server = createServer((request, response) => {
    const answer = (code: number, body: object) => {
      const text = JSON.stringify(body);
      response
        .writeHead(code, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) })
        .end(text);
    };
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.method !== 'POST' || request.url !== '/api/v1/api-key/verify') return answer(404, {});
      answerTo(Buffer.concat(chunks).toString()).then(
        (valid) => answer(200, { status: valid ? 'VALID' : 'REFUSED' }),
        (error: unknown) => answer(500, { error: String(error) }),
      );
    });
  });
  const answerTo = async (body: string) => verify((JSON.parse(body) as { key: string }).key);
  server.listen(Number(PORT), '127.0.0.1');
}
