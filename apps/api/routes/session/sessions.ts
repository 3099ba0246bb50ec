import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { storeSession, readSession, session, SESSION_SECONDS, removeSession } from '../../resources/access/sessions.ts';

export const createSession = route('post', '/console/session', {
  summary: 'Sign in to the console with an access token',
  description: 'The answer sets a cookie that stands for the token.',
  anyToken: true,
  status: 201,
  response: object({ session }),
  errors: ['session_elsewhere', 'session_unmarked'],

  async handle({ sql, caller, header, sessionCookies, setCookie, changed }) {
    sessionCookies.requireOwnPage(header);
    // A session makes no other one: it would outlive its 8 hours.
    if (caller.sessionId !== undefined) throw new ApiError('token_missing');
    const { secret, sessionId, line } = await storeSession(sql, caller);
    changed('session', sessionId, { after: line });
    setCookie(sessionCookies.store(secret, SESSION_SECONDS));
    return { session: await readSession(sql, caller, sessionId) };
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
  response: object({ ended: Type.Literal(true, { examples: [true] }) }),

  async handle({ sql, caller, sessionCookies, setCookie, changed }) {
    const line = await removeSession(sql, caller);
    changed('session', caller.sessionId!, { before: line });
    setCookie(sessionCookies.remove());
    return { ended: true as const };
  },
});
