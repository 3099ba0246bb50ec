import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route, type Services } from '../../http/route.ts';
import type { SessionCookies } from '../../http/session-cookie.ts';
import {
  storeSession,
  readSession,
  session,
  SESSION_SECONDS,
  removeSession,
  portalOf,
} from '../../resources/access/sessions.ts';

const ended = object({ ended: Type.Literal(true, { examples: [true] }) });

export const createSession = route('post', '/console/session', {
  summary: 'Sign in to the console with an access token',
  description: 'The answer sets a cookie that stands for the token.',
  anyToken: true,
  status: 201,
  response: object({ session }),
  errors: ['session_elsewhere', 'session_unmarked'],

  async handle(call) {
    const { sql, caller, header, sessionCookies } = call;
    sessionCookies.requireOwnPage(header);
    // A session makes no other one: it would outlive its 8 hours.
    if (caller.sessionId !== undefined) throw new ApiError('token_missing');
    return { session: await readSession(sql, caller, await begin(call, sessionCookies, SESSION_SECONDS)) };
  },
});

export const getSession = route('get', '/console/session', {
  summary: 'Get the session of the console, with what its token may do now',
  description: 'Without a session it tells what the access token may do.',
  anyToken: true,
  response: object({ session }),

  async handle({ sql, caller }) {
    return { session: await readSession(sql, caller) };
  },
});

export const deleteSession = route('delete', '/console/session', {
  summary: 'Sign out of the console',
  description: 'The session ends, whoever has its cookie.',
  anyToken: true,
  response: ended,

  handle: (call) => end(call, call.sessionCookies),
});

export const openPortal = route('post', '/portal/session', {
  summary: 'Open the portal with a link token, sent as X-Keytally-Link',
  description: 'The answer sets a cookie that stands for the link token.',
  portal: 'link',
  status: 201,
  response: object({ opened: Type.Literal(true, { examples: [true] }) }),

  async handle(call) {
    const secondsLeft = Math.ceil((portalOf(call.caller).expiresAt - call.clock.now()) / 1000);
    await begin(call, call.portalCookies, Math.max(1, secondsLeft));
    return { opened: true as const };
  },
});

export const leavePortal = route('delete', '/portal/session', {
  summary: 'Leave the portal',
  description: 'The session ends, whoever has its cookie. The link goes on.',
  portal: 'session',
  response: ended,

  handle: (call) => end(call, call.portalCookies),
});

type Holding = Pick<Services, 'sql' | 'changed' | 'setCookie'> & { caller: Caller };

/** Begins a session of the caller; gives its id. */
async function begin({ sql, caller, changed, setCookie }: Holding, cookies: SessionCookies, seconds: number) {
  const { secret, sessionId, line } = await storeSession(sql, caller);
  changed('session', sessionId, { after: line });
  setCookie(cookies.store(secret, seconds));
  return sessionId;
}

/** Ends the caller's session. */
async function end({ sql, caller, changed, setCookie }: Holding, cookies: SessionCookies) {
  changed('session', caller.sessionId!, { before: await removeSession(sql, caller) });
  setCookie(cookies.remove());
  return { ended: true as const };
}
