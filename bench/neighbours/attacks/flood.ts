import { Agent, request } from 'node:http';

/** How often each status was answered; 0: the connection ended without an answer. */
export const answers = new Map<number, number>();

export type HttpCall = {
  url: string;
  method?: string;
  headers?: Record<string, string | string[]>;
  body?: unknown;
};

// No more connections than a stranger easily has.
const agent = new Agent({ keepAlive: true, maxSockets: 2_000 });

/** Sends a request and gives its status and text. */
export function send({ url, method = 'GET', headers = {}, body }: HttpCall): Promise<{ status: number; text: string }> {
  const payload = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
  return new Promise((resolve) => {
    const done = (status: number, text: string) => {
      answers.set(status, (answers.get(status) ?? 0) + 1);
      resolve({ status, text });
    };
    const type = payload === undefined ? {} : { 'Content-Type': 'application/json' };
    const sent = request(url, { method, agent, headers: { ...type, ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => done(response.statusCode!, text));
      response.on('error', () => done(0, ''));
    });
    sent.on('error', () => done(0, ''));
    sent.end(payload);
  });
}

/** Sends calls until the signal, so many at a time, each as soon as another is answered. */
export async function flood(signal: AbortSignal, atOnce: number, make: (n: number) => HttpCall): Promise<void> {
  let next = 0;
  const one = async () => {
    while (!signal.aborted) {
      const { status } = await send(make(next++));
      // A refused connection would be tried again without end.
      if (status === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}
