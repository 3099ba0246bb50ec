import { checkAnswer } from './contract.ts';

export type Answer = { status: number; headers: Headers; body: any; text: string };
export type RequestOptions = { token?: string | null; body?: unknown; headers?: Record<string, string>; raw?: string };

/** Sends one HTTP request, and checks that its answer is as documented; `raw` is sent as it stands instead of JSON. */
export async function request(url: string, method: string, options: RequestOptions): Promise<Answer> {
  const { token, body, raw } = options;
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(url, {
    method: method.toUpperCase(),
    headers: {
      ...(token && { Authorization: `Bearer ${token}` }),
      ...(payload !== undefined && { 'Content-Type': 'application/json' }),
      ...options.headers,
    },
    ...(payload !== undefined && { body: payload }),
  });
  const text = await response.text();
  const { status, headers } = response;
  const { origin, pathname } = new URL(url);
  checkAnswer(origin, method, pathname, { status, headers, text });
  const isJson = headers.get('content-type')?.includes('json');
  return { status, headers, text, body: isJson && text ? JSON.parse(text) : undefined };
}
