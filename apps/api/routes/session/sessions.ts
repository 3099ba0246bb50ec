import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object, plainText, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { route, type Services } from '../../http/route.ts';
import type { SessionCookies } from '../../http/session-cookie.ts';
import {
  CODE_SECONDS,
  PROVIDED_SECONDS,
  storeCode,
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
    call.sessionCookies.requireOwnPage(call.header);
    // A session makes no other one: it would outlive its 8 hours.
    if (call.caller.sessionId !== undefined) throw new ApiError('token_missing');
    return signIn(call, SESSION_SECONDS);
  },
});

export const createSessionCode = route('post', '/console/session/link', {
  summary: 'Make a code by which the console is opened signed in, once and within 10 minutes',
  description: 'It goes behind the # of the address of the console. The code before it ends.',
  anyToken: true,
  status: 201,
  response: object({
    code: plainText(64, 'the code; only this answer contains it', 'once_6S0aVxJ1mQ'),
    expiresAt: timestamp('when it ends'),
  }),

  async handle({ sql, caller, changed }) {
    if (caller.sessionId !== undefined) throw new ApiError('token_missing');
    const { secret: code, sessionId, line } = await storeCode(sql, caller);
    changed({ resource: 'session', id: sessionId, after: line });
    return { code, expiresAt: line.expiresAt };
  },
});

export const enterByCode = route('post', '/console/session/code', {
  summary: 'Sign in to the console with a code that works once, sent as X-Keytally-Code',
  description: 'The answer sets a cookie that stands for the token that made the code.',
  enters: 'code',
  status: 201,
  response: object({ session }),
  errors: ['session_ended', 'session_elsewhere', 'session_unmarked'],

  async handle(call) {
    // Of two at a time one finds it.
    await removeSession(call.sql, call.caller);
    return signIn(call, SESSION_SECONDS);
  },
});

export const askProvider = route('post', '/console/session/provider', {
  summary: 'Ask where people sign in at the provider of the team',
  description: 'The answer sets a cookie, without which what the provider answers counts for nothing.',
  writes: false,
  response: object({ url: plainText(4096, 'the page of the provider', 'https://login.example.com/authorize?state=x') }),
  errors: ['route_not_found', 'provider_unavailable', 'session_elsewhere', 'session_unmarked'],

  async handle({ header, sessionCookies, provider, providerCookies, setCookie }) {
    sessionCookies.requireOwnPage(header);
    if (!provider) throw new ApiError('route_not_found');
    const { url, secret } = await provider.ask();
    setCookie(providerCookies.store(secret, CODE_SECONDS));
    return { url };
  },
});

export const enterByProvider = route('post', '/console/session/provided', {
  summary: 'Sign in to the console with what the provider answered, sent as X-Keytally-Code',
  description: 'The answer sets a cookie that stands for an access token of the person. It is in force for an hour.',
  enters: 'provider',
  status: 201,
  response: object({ session }),
  errors: ['session_ended', 'permission_missing', 'provider_unavailable', 'session_elsewhere', 'session_unmarked'],

  handle: (call) => signIn(call, PROVIDED_SECONDS),
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

/** Begins a session of the console; gives it. */
async function signIn(call: Holding & Pick<Services, 'sessionCookies'>, seconds: number) {
  const sessionId = await begin(call, call.sessionCookies, seconds);
  return { session: await readSession(call.sql, call.caller, sessionId) };
}

/** Begins a session of the caller; gives its id. */
async function begin({ sql, caller, changed, setCookie }: Holding, cookies: SessionCookies, seconds: number) {
  const { secret, sessionId, line } = await storeSession(sql, caller, seconds);
  changed({ resource: 'session', id: sessionId, after: line });
  setCookie(cookies.store(secret, seconds));
  return sessionId;
}

/** Ends the caller's session. */
async function end({ sql, caller, changed, setCookie }: Holding, cookies: SessionCookies) {
  changed({ resource: 'session', id: caller.sessionId!, before: await removeSession(sql, caller) });
  setCookie(cookies.remove());
  return { ended: true as const };
}
