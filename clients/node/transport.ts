/** A request as it is sent. */
export type HttpRequest = {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string | undefined;
};
/** An answer as it came. */
export type HttpAnswer = { status: number; headers: { get(name: string): string | null | undefined }; text: string };
/** A request that is on its way. Without an answer the promise is rejected, as it is after `cancel`. */
export type Exchange<Answer> = { answer: Promise<Answer>; cancel(): void };
/** Sends a request once. It throws at once where a header holds what no header may. */
export type Transport = (request: HttpRequest) => Exchange<HttpAnswer>;

/** Sends by `fetch`, which every runtime has. */
export function fetchTransport(send: typeof fetch): Transport {
  return ({ method, url, headers, body }) => {
    const controller = new AbortController();
    const init: RequestInit = {
      method,
      headers: new Headers(headers),
      // fetch must not send the token to the address that a redirect names.
      redirect: 'manual',
      signal: controller.signal,
      ...(body !== undefined && { body }),
    };
    return { answer: answerOf(send, url, init), cancel: () => controller.abort() };
  };
}

async function answerOf(send: typeof fetch, url: string, init: RequestInit): Promise<HttpAnswer> {
  const response = await send(url, init);
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}
