import { setTimeout as sleep } from 'node:timers/promises';
import { errors } from '../../../shared/contract/errors.ts';
import { call, type Body, type Reply } from './client.ts';
import type { ChangeKind, Detail, History } from '../history.ts';
import type { Random } from '../../helpers/random.ts';
import type { Stage } from '../stage.ts';

export type Change = {
  what: ChangeKind;
  /** The entity; empty while it has no id yet. */
  of?: string;
  method: 'post' | 'patch' | 'delete';
  path: string;
  body?: unknown;
  detail?: Detail;
  /** The api to call; by default any. */
  at?: string;
  /** Reads the id of the new entity from the answer. */
  learn?(body: Body): { of: string };
};

/** Makes changes through the management API and records every attempt. */
export type Manager = {
  phase: number;
  /** One attempt. */
  once(change: Change): Promise<Reply>;
  /** Repeats a change, with an Idempotency-Key if it takes one, until it is decided; undefined if it never is. */
  insist(change: Change, withinMs?: number): Promise<Body | undefined>;
  /** Reads something, and records only that it was served. */
  read(path: string): Promise<Reply>;
  /** Repeats a read until it is answered; undecided it is a finding, and what came last. */
  look(path: string): Promise<Reply>;
};

const APIS = ['api-1', 'api-2'] as const;
const PAUSE_MS = 150;
const WITHIN_MS = 60_000;
// A 503 says that nothing is known yet: of a record with losses the service waits for what is on its way, and on a busy
// machine every answer may be late.
const LOOKED_WITHIN_MS = 180_000;
const ON_THE_WAY_MS = 10_000;

export function makeManager(stage: Stage, history: History, random: Random, phase: number): Manager {
  let made = 0;
  const url = (at: string, path: string) => `${stage.url(at)}/api/v1${path}`;
  const { requestDeadlineMs } = stage.kind;
  const options = {
    token: stage.token,
    ...(requestDeadlineMs !== undefined && { withinMs: requestDeadlineMs + ON_THE_WAY_MS }),
  };

  async function attempt(id: string, change: Change): Promise<Reply> {
    const { what, method, path, body, at = random.pick(APIS) } = change;
    const from = history.now();
    const headers = method === 'post' ? { 'Idempotency-Key': `${id} of ${phase}` } : {};
    const reply = await call(method, url(at, path), { ...options, body, headers });
    const learned = reply.http !== undefined && reply.http < 300 ? change.learn?.(reply.body) : undefined;
    history.add({
      type: 'change',
      phase,
      change: id,
      from,
      to: history.now(),
      at,
      what,
      of: learned?.of ?? change.of ?? '',
      detail: change.detail ?? {},
      ...(reply.http === undefined ? { error: reply.error ?? '' } : { http: reply.http, code: codeOf(reply) }),
    });
    return reply;
  }

  return {
    phase,
    once: (change) => attempt(`change-${made++}`, change),
    async insist(change, withinMs = WITHIN_MS) {
      const id = `change-${made++}`;
      const until = performance.now() + withinMs;
      do {
        const reply = await attempt(id, change);
        if (isDecided(reply)) return reply.http! < 300 ? reply.body : undefined;
        await sleep(PAUSE_MS);
      } while (performance.now() < until);
      history.add({ type: 'finding', phase, text: `${change.what} was not decided within ${withinMs / 1000} s` });
      return undefined;
    },
    async read(path) {
      const from = history.now();
      const at = random.pick(APIS);
      const reply = await call('get', url(at, path), options);
      const answer = reply.http === undefined ? { error: reply.error ?? '' } : { http: reply.http };
      history.add({ type: 'read', phase, from, to: history.now(), at, ...answer });
      return reply;
    },
    async look(path) {
      const until = performance.now() + LOOKED_WITHIN_MS;
      for (;;) {
        const reply = await call('get', url(random.pick(APIS), path), options);
        if (isDecided(reply)) return reply;
        if (performance.now() > until) {
          const last = reply.http === undefined ? reply.error : `${reply.http}, ${codeOf(reply)}`;
          const text = `GET ${path} was not decided within ${LOOKED_WITHIN_MS / 1000} s, and was last answered ${last}`;
          history.add({ type: 'finding', phase, text });
          return reply;
        }
        await sleep(PAUSE_MS);
      }
    },
  };
}

/** The code of an error; 0 for other answers. */
export function codeOf({ body }: Reply): number {
  return body.error?.code ?? 0;
}

function isDecided(reply: Reply): boolean {
  return reply.http !== undefined && reply.http < 500 && codeOf(reply) !== errors.idempotency_busy[0];
}
