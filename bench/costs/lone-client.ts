// Verifies keys with the client, one at a time: GET /?seconds=N answers how it went. PORT, VERIFY_URL, TOKEN, BODIES.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { percentile } from '../results.ts';
import { keytally } from '../../clients/node/index.ts';
import type { Round } from '../wrk.ts';

const { PORT, VERIFY_URL, TOKEN, BODIES = '' } = process.env;
const client = keytally({ url: VERIFY_URL, token: TOKEN, verifyTimeoutMs: 10_000 });
const calls = readFileSync(BODIES, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as { key: string });
let at = 0;

createServer(async (request, response) => {
  const seconds = Number(new URL(request.url!, 'http://a').searchParams.get('seconds'));
  response.end(JSON.stringify(await verifyFor(seconds)));
}).listen(Number(PORT), '127.0.0.1');

async function verifyFor(seconds: number): Promise<Round> {
  const tookUs: number[] = [];
  const began = performance.now();
  for (let now = began; now - began < 1000 * seconds;) {
    const { status } = await client.verify(calls[at++ % calls.length]!);
    if (status !== 'VALID') throw new Error(`a key is ${status}`);
    const then = now;
    now = performance.now();
    tookUs.push(1000 * (now - then));
  }
  const perSecond = (1000 * tookUs.length) / (performance.now() - began);
  const sorted = tookUs.toSorted((a, b) => a - b);
  return { calls: tookUs.length, perSecond, p50Us: percentile(sorted, 0.5), p99Us: percentile(sorted, 0.99) };
}
