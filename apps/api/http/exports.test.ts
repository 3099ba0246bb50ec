import { EventEmitter, on, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import Koa from 'koa';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { asApiError, errorEnvelope } from '../../../shared/contract/errors.ts';
import { ExportAnswer, type OpenExport } from '../../../shared/contract/route.ts';
import { makeHttpServer } from '../../../shared/http/http-server.ts';
import { listen } from '../../../tests/helpers/listen.ts';
import { makeSendExport } from './exports.ts';

test('a team has so many exports under way, all teams so many, and so many are made at a time, in turn', async () => {
  const { get, nextMade, arrival } = await serve({ ofTeam: 2, ofAll: 3, made: 1 });
  const first = get('a');
  const making = await nextMade();
  await arrival();
  const second = get('a');
  await arrival();
  const refused = await get('a');
  assert.equal([refused.status, refused.headers.get('retry-after')], [429, '10']);
  const other = get('b');
  await arrival();
  assert.is((await get('c')).status, 429);
  making.done();
  assert.is((await first).status, 200);
  (await nextMade()).fail(new Error('told'));
  assert.is((await second).status, 500);
  const ofOther = await nextMade();
  assert.is(ofOther.team, 'b');
  ofOther.done();
  assert.is(await (await other).text(), 'whole');
  const again = get('a');
  (await nextMade()).done();
  assert.is((await again).status, 200);
});

test('one that is given up is not made, is ended if it is being made, and its file is closed if it is read', async () => {
  const { get, nextMade, arrival, departure } = await serve({ ofTeam: 2, made: 1 });
  const [making, waiting] = [new AbortController(), new AbortController()];
  const gone = [get('a', making.signal).catch(() => 'gone')];
  const first = await nextMade();
  await arrival();
  gone.push(get('a', waiting.signal).catch(() => 'gone'));
  await arrival();
  waiting.abort();
  await departure();
  const third = get('a');
  await arrival();
  making.abort();
  await departure();
  assert.equal(await Promise.all(gone), ['gone', 'gone']);
  assert.ok(first.signal.aborted);
  const [late, read] = [endless(), endless()];
  const lateClosed = once(late, 'close');
  first.done({ stream: late, bytes: undefined });
  const next = await nextMade();
  await lateClosed;
  assert.not.ok(next.signal.aborted);
  next.done({ stream: read, bytes: undefined });
  const answer = await third;
  assert.is(answer.status, 200);
  const closed = once(read, 'close');
  await answer.body!.cancel();
  await closed;
});

test('an export that breaks, or that nobody reads, is cut off, so that no part of it looks like the whole', async () => {
  const { get, nextMade } = await serve({ unreadMs: 50 });
  const breaking = get('a');
  const making = await nextMade();
  const stream = Readable.from(['a part', new Promise((_, reject) => setImmediate(reject, new Error('told')))]);
  making.done({ stream, bytes: undefined });
  assert.is(await breaking.then((answer) => answer.text()).catch(() => 'cut off'), 'cut off');
  const unread = get('a');
  const many = endless();
  (await nextMade()).done({ stream: many, bytes: undefined });
  const answer = await unread;
  await new Promise((resolve) => many.once('close', resolve));
  assert.is(await answer.text().catch(() => 'cut off'), 'cut off');
});

type Made = { team: string; signal: AbortSignal; done(opened?: OpenExport): void; fail(error: Error): void };

async function serve(limits: Partial<Parameters<typeof makeSendExport>[0]>) {
  const send = makeSendExport({ ofTeam: 2, ofAll: 16, made: 2, unreadMs: 60_000, ...limits });
  const events = new EventEmitter();
  const [made, arrivals, departures] = ['made', 'arrival', 'departure'].map((name) => on(events, name));
  const app = new Koa();
  app.silent = true;
  app.use(async (ctx) => {
    const team = ctx.path.slice(1);
    const open = (signal: AbortSignal) => {
      const { promise, resolve, reject } = Promise.withResolvers<OpenExport>();
      const whole = { stream: Readable.from(['whole']), bytes: 5 };
      events.emit('made', { team, signal, done: (opened = whole) => resolve(opened), fail: reject });
      return promise;
    };
    try {
      const sent = send(ctx, team, new ExportAnswer('text/csv', 'usage.csv', open));
      events.emit('arrival');
      const response: ServerResponse = ctx.res;
      response.once('close', () => events.emit('departure'));
      await sent;
    } catch (error) {
      const known = asApiError(error);
      ctx.status = known.status;
      ctx.set(known.headers);
      ctx.body = errorEnvelope(known, '');
    }
  });
  const { url } = await listen(makeHttpServer(app.callback()));
  return {
    get: (team: string, signal?: AbortSignal) => fetch(`${url}/${team}`, { ...(signal && { signal }) }),
    /** The next export that is to be made. */
    nextMade: async () => ((await made!.next()).value as [Made])[0],
    arrival: () => arrivals!.next(),
    departure: () => departures!.next(),
  };
}

function endless(): Readable {
  const part = Buffer.alloc(64 * 1024, 'x');
  return Readable.from(
    (function* () {
      for (;;) yield part;
    })(),
  );
}
