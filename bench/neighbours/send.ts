import { Agent, request } from 'node:http';

/** A request; with `neverEnds` its body is begun and never ended. */
export type HttpCall = {
  url: string;
  method?: string;
  headers?: Record<string, string | string[]>;
  body?: unknown;
  neverEnds?: boolean;
};

// No more connections than a stranger easily has.
const agent = new Agent({ keepAlive: true, maxSockets: 2_000 });

/** Sends a request and gives its status and text; 0: the connection ended without an answer. */
export function send(call: HttpCall): Promise<{ status: number; text: string }> {
  const { url, method = 'GET', headers = {}, body, neverEnds = false } = call;
  const payload = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
  const type = payload === undefined ? {} : { 'Content-Type': 'application/json' };
  return new Promise((resolve) => {
    const sent = request(url, { method, agent, headers: { ...type, ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode!, text }));
      response.on('error', () => resolve({ status: 0, text: '' }));
    });
    sent.on('error', () => resolve({ status: 0, text: '' }));
    if (neverEnds) sent.write(payload ?? '{');
    else sent.end(payload);
  });
}
