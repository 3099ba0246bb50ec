import * as assert from 'uvu/assert';
import { refusals } from '../../helpers/end-clients.ts';
import type { Answered } from './gateway.ts';
import { bearer, type Cases, type Quirks } from './setting.ts';

/** Keys that pass, keys that are refused, and large bodies. */
export const passes: Cases = {
  async 'a good key passes in each of three ways, and the API learns whose request it is'({
    clients,
    gateway,
    api,
    quirks,
  }) {
    const { key, id, meter } = clients.good;
    const before = await clients.usedCredits();
    const basic = (text: string) => ({ Authorization: `Basic ${btoa(text)}` });
    const ways: Record<string, string>[] = [bearer(key), { 'X-Api-Key': key }, basic(`${key}:`), basic(`:${key}`)];
    for (const [i, headers] of ways.entries()) {
      const { status, text, headers: answered } = await gateway.send(`/documents/${i}?a=b`, { headers });
      assert.equal([status, text], [200, 'reached'], Object.keys(headers).join());
      if (quirks.rateLimit) assert.match(String(answered['ratelimit']), /^"key";r=\d+;t=[01]$/);
      const { url, headers: received } = api.reached.at(-1)!;
      const identity = ['key-id', 'workspace-id', 'customer-id', 'meter-id', 'status', 'remaining-credits'];
      assert.is(url, `/documents/${i}?a=b`);
      const told = identity.map((name) => received[`x-keytally-${name}`]);
      const left = String(100_000 - before - 1 - i);
      assert.equal(told, [id, clients.workspaceId, 'cus%20acm%C3%A9', meter, 'VALID', left]);
    }
    assert.is(await clients.usedCredits(), before + 4);
  },

  async 'each refusal reaches the end client with its status, and never the API'({ clients, gateway, api, quirks }) {
    for (const [kind, [status, code]] of Object.entries(refusals)) {
      const headers = bearer(clients.keys[kind as keyof typeof refusals]);
      const send = () => gateway.send('/documents', { headers });
      const isSlow = kind === 'slow';
      const answer = isSlow ? await clients.whileRateLimited(send, (a) => a.status === 429) : await send();
      assertRefused(answer, { status, code, what: kind }, quirks);
      // The slow key passed until it was refused for its rate.
      if (isSlow) api.reached.length = 0;
    }
    assertRefused(await gateway.send('/documents'), { status: 401, code: 40110, what: 'no key' }, quirks);
    const headers = { ...bearer(clients.good.key), 'X-Api-Key': clients.keys.poor };
    const two = await gateway.send('/documents', { headers });
    assertRefused(two, { status: 401, code: 40111, what: 'two keys' }, quirks);
    assert.is(api.reached.length, 0);
  },

  async 'large uploads reach the API whole, and keytally not at all'({ clients, gateway, api }) {
    const body = 'GET / HTTP/1.1\r\n\r\n'.repeat(300_000);
    const before = await clients.usedCredits();
    for (const chunked of [false, true]) {
      const sent = { method: 'POST', headers: bearer(clients.good.key), body, chunked };
      const { status } = await gateway.send('/documents', sent);
      assert.equal([status, api.reached.at(-1)!.bytes], [200, body.length]);
    }
    assert.is(await clients.usedCredits(), before + 2);
  },
};

type Refused = { status: number; code: number; what: string };

function assertRefused(answer: Answered, { status, code, what }: Refused, quirks: Quirks): void {
  assert.is(answer.status, status, what);
  assert.is(answer.headers['www-authenticate'], status === 401 ? 'Bearer' : undefined, what);
  assert.is(Number(answer.headers['retry-after']) > 0, status === 429, what);
  if (!quirks.envelope) return;
  const { error } = JSON.parse(answer.text) as { error: { code: number } };
  assert.is(error.code, code, what);
}
