import type { ServerResponse } from 'node:http';
import type Koa from 'koa';
import { ApiError } from '../../../shared/contract/errors.ts';
import type { ExportAnswer } from '../../../shared/contract/route.ts';

/** Sends exports, some at a time for each team. */
export type SendExport = ReturnType<typeof makeSendExport>;

// How many exports a process has under way, of one team and of all, and how many of them it has made at a time. Each one that is
// made takes the books up to 550 MB of memory, each that is read a file on their disk. Whoever reads nothing for a minute has gone,
// whatever the network says.
const LIMITS = { ofTeam: 2, ofAll: 16, made: 2, unreadMs: 60_000 };

/**
 * Makes what sends exports. One under way takes a place of its team until its last byte has left: the books keep its file for so
 * long. Nothing is sent of one that fails while it is made; a connection that breaks later is cut, so that no part of a
 * file looks like a whole one.
 */
export function makeSendExport(limits = LIMITS) {
  const underWay = new Map<string, number>();
  let all = 0;
  const inTurn = makeTurns(limits.made);

  function enter(teamId: string, response: ServerResponse): AbortSignal {
    // It was closed before this, and does not tell it again.
    if (response.destroyed) return AbortSignal.abort();
    const own = underWay.get(teamId) ?? 0;
    if (own >= limits.ofTeam || all >= limits.ofAll)
      throw new ApiError('too_many_exports', { headers: { 'Retry-After': '10' } });
    underWay.set(teamId, own + 1);
    all += 1;
    const gone = new AbortController();
    response.once('close', () => {
      gone.abort();
      all -= 1;
      const left = underWay.get(teamId)! - 1;
      if (left === 0) underWay.delete(teamId);
      else underWay.set(teamId, left);
    });
    return gone.signal;
  }

  return async function sendExport(
    ctx: Koa.Context,
    teamId: string,
    { type, name, open }: ExportAnswer,
  ): Promise<void> {
    const { socket } = ctx.req;
    const leave = () => void ctx.res.destroy();
    // Our servers let a client end its side and read on. One that does so before its file is there has gone: a browser that is
    // closed tells no more than that.
    if (socket.readableEnded) leave();
    const signal = enter(teamId, ctx.res);
    socket.once('end', leave);
    // Nothing moves while it is made, which may take longer than a connection may stand still.
    ctx.res.setTimeout(0);
    const opened = await inTurn(signal, () => open(signal))
      .catch((error: unknown) => {
        if (!signal.aborted) throw error;
      })
      .finally(() => socket.off('end', leave));
    // Nobody is there to answer any more.
    if (!opened || signal.aborted) return void opened?.stream.destroy();
    const { stream, bytes } = opened;
    stream.once('error', () => ctx.res.destroy());
    ctx.res.setTimeout(limits.unreadMs, () => ctx.res.destroy());
    ctx.status = 200;
    ctx.body = stream;
    ctx.type = type;
    if (bytes !== undefined) ctx.length = bytes;
    ctx.attachment(name);
  };
}

/** Does some pieces of work at a time, the others in the order in which they came. One that nobody waits for any more is not begun. */
function makeTurns(most: number) {
  let free = most;
  const waiting: (() => void)[] = [];

  return async function inTurn<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result | undefined> {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return signal.aborted ? undefined : await work();
    } finally {
      // The place goes on to the next one.
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}
