import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import Koa from 'koa';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { asApiError, errorEnvelope } from '../../../shared/contract/errors.ts';
import { ExportAnswer, type OpenExport } from '../../../shared/contract/route.ts';
import { makeHttpServer } from '../../../shared/http/http-server.ts';
import { eventually } from '../../../tests/helpers/eventually.ts';
import { makeSendExport, type ExportLimits } from './exports.ts';

const test = suite('exports');
const servers: Server[] = [];
test.after.each(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Made = { team: string; signal: AbortSignal; done(opened?: OpenExport): void; fail(error: Error): void };

test('a team has so many exports under way, all teams so many, and so many are made at a time, in turn', async () => {
  const { get, made, arrived } = await serve({ ofTeam: 2, ofAll: 3, made: 1 });
  const [first, second] = [get('a'), get('a')];
  await arrived(2);
  const refused = await get('a');
  assert.equal([refused.status, refused.headers.get('retry-after')], [429, '10']);
  assert.is(((await refused.json()) as any).error.code, 42922);
  const other = get('b');
  await arrived(4);
  assert.is((await get('c')).status, 429);
  assert.is(made.length, 1);
  made[0]!.done();
  await eventually('the next is made', async () => made.length === 2);
  made[1]!.fail(new Error('told'));
  assert.equal(
    (await Promise.all([first, second])).map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 500],
  );
  await eventually('the other team has its turn', async () => made.length === 3);
  assert.is(made[2]!.team, 'b');
  made[2]!.done();
  assert.is(await (await other).text(), 'whole');
  const again = get('a');
  await eventually('its places are free', async () => made.length === 4);
  made[3]!.done();
  assert.is((await again).status, 200);
});

test('an export may take longer to make than a connection may stand still', async () => {
  const { get, made, server } = await serve({});
  server.timeout = 1_000;
  const answer = get('a');
  await eventually('it is made', async () => made.length === 1);
  // One that came later is closed for it.
  const still = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
  await new Promise((resolve) => still.resume().once('close', resolve));
  made[0]!.done();
  assert.is(await (await answer).text(), 'whole');
});

test('one that is given up is not made, is ended if it is being made, and its file is closed if it is read', async () => {
  const { get, made, arrived, left } = await serve({ ofTeam: 2, made: 1 });
  const [making, waiting] = [leaver(), leaver()];
  const gone = [get('a', making.signal).catch(() => 'gone')];
  await eventually('one is made', async () => made.length === 1);
  gone.push(get('a', waiting.signal).catch(() => 'gone'));
  await arrived(2);
  waiting.leave();
  await left(1);
  const third = get('a');
  await arrived(3);
  making.leave();
  await left(2);
  assert.equal(await Promise.all(gone), ['gone', 'gone']);
  assert.ok(made[0]!.signal.aborted);
  const [late, read] = [endless(), endless()];
  made[0]!.done({ stream: late, bytes: undefined });
  await eventually('what comes late is closed', async () => late.destroyed);
  await eventually('the third is made', async () => made.length === 2);
  assert.not.ok(made[1]!.signal.aborted);
  made[1]!.done({ stream: read, bytes: undefined });
  const answer = await third;
  assert.is(answer.status, 200);
  await answer.body!.cancel();
  await eventually('it is closed', async () => read.destroyed);
});

test('a client that was reset or has ended its side before its export begins takes no place', async () => {
  let client: Socket;
  const going = [
    async ({ res }: Koa.Context) => {
      client.resetAndDestroy();
      await once(res, 'close');
    },
    async ({ req }: Koa.Context) => {
      client.end();
      await once(req.socket, 'end');
    },
  ];
  const { get, made, ask, arrived } = await serve({ ofTeam: 1 }, async (ctx) => going.shift()?.(ctx));
  for (const count of [1, 2]) {
    client = ask('a');
    await arrived(count);
  }
  const answer = get('a');
  await arrived(3);
  made.at(-1)!.done();
  assert.is((await answer).status, 200);
  assert.is(made.length, 1);
});

test('a client that ends its side has gone while its export is made, and reads it to the end after that', async () => {
  const sockets: Socket[] = [];
  const { made, ask } = await serve({ ofTeam: 1 }, async ({ req }) => void sockets.push(req.socket));
  const leaving = ask('a');
  await eventually('it is made', async () => made.length === 1);
  leaving.end();
  await eventually('its making is ended', async () => made[0]!.signal.aborted);
  const reader = ask('a');
  let received = '';
  reader.on('data', (bytes: Buffer) => (received += bytes.toString()));
  await eventually('its place is free', async () => made.length === 2);
  const stream = new PassThrough();
  made[1]!.done({ stream, bytes: undefined });
  stream.write('one part');
  await eventually('it is read', async () => received.includes('one part'));
  reader.end();
  await eventually('its side has ended', async () => sockets[1]!.readableEnded);
  assert.not.ok(made[1]!.signal.aborted);
  stream.end('the other');
  await once(reader, 'end');
  assert.match(received, /the other\r\n0\r\n\r\n$/);
  made[0]!.done();
  await eventually('it is cut off', async () => leaving.destroyed);
  assert.is(leaving.bytesRead, 0);
});

test('an export that breaks, or that nobody reads, is cut off, so that no part of it looks like the whole', async () => {
  const { get, made } = await serve({ unreadMs: 200 });
  const breaking = get('a');
  await eventually('it is made', async () => made.length === 1);
  const stream = Readable.from(['a part', new Promise((_, reject) => setImmediate(reject, new Error('told')))]);
  made[0]!.done({ stream, bytes: undefined });
  const broken = await breaking.then((answer) => answer.text()).catch(() => 'cut off');
  assert.is(broken, 'cut off');
  const unread = get('a');
  await eventually('the other is made', async () => made.length === 2);
  const many = endless();
  made[1]!.done({ stream: many, bytes: undefined });
  const answer = await unread;
  await eventually('it is closed', async () => many.destroyed);
  assert.is(await answer.text().catch(() => 'cut off'), 'cut off');
});

test.run();

async function serve(limits: Partial<ExportLimits>, before?: (ctx: Koa.Context) => Promise<void>) {
  const send = makeSendExport({ ofTeam: 2, ofAll: 16, made: 2, unreadMs: 60_000, ...limits });
  const made: Made[] = [];
  let [begun, ended] = [0, 0];
  const app = new Koa();
  app.silent = true;
  app.use(async (ctx) => {
    const team = ctx.path.slice(1);
    const open = (signal: AbortSignal) => {
      const { promise, resolve, reject } = Promise.withResolvers<OpenExport>();
      const whole = { stream: Readable.from(['whole']), bytes: 5 };
      made.push({ team, signal, done: (opened = whole) => resolve(opened), fail: reject });
      return promise;
    };
    await before?.(ctx);
    try {
      const sent = send(ctx, team, new ExportAnswer('text/csv', 'usage.csv', open));
      begun += 1;
      ctx.res.once('close', () => (ended += 1));
      await sent;
    } catch (error) {
      const known = asApiError(error);
      ctx.status = known.status;
      ctx.set(known.headers);
      ctx.body = errorEnvelope(known, '');
    }
  });
  const server = makeHttpServer(app.callback()).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const get = (team: string, signal?: AbortSignal) =>
    fetch(`http://127.0.0.1:${port}/${team}`, { ...(signal && { signal }) });
  /** Asks for exports in one go on a connection of its own, which the server's end does not end. */
  const ask = (...teams: string[]): Socket => {
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {});
    client.write(teams.map((team) => `GET /${team} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''));
    return client.resume();
  };
  return {
    get,
    ask,
    made,
    server,
    arrived: (count: number) => eventually(`${count} arrived`, async () => begun >= count),
    left: (count: number) => eventually(`${count} left`, async () => ended >= count),
  };
}

function leaver() {
  const gone = new AbortController();
  return { signal: gone.signal, leave: () => gone.abort() };
}

function endless(): Readable {
  return new Readable({
    read() {
      this.push(Buffer.alloc(64 * 1024, 'x'));
    },
  });
}
