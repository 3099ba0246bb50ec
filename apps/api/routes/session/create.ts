import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { createSession, readSession, session, SESSION_SECONDS } from '../../resources/access/sessions.ts';

export default route({
  method: 'post',
  path: '/console/session',
  tag: 'Access tokens',
  operationId: 'createSession',
  summary: 'Sign in to the console with an access token',
  description: 'The answer sets a cookie that stands for the token.',
  anyToken: true,
  status: 201,
  writes: true,
  response: object({ session }),
  errors: ['session_elsewhere', 'session_unmarked'],

  async handle({ sql, caller, header, sessionCookies, setCookie, audit }) {
    sessionCookies.requireOwnPage(header);
    // A session makes no other one: it would outlive its 8 hours.
    if (caller.sessionId !== undefined) throw new ApiError('token_missing');
    const { secret, sessionId, line } = await createSession(sql, caller);
    audit('session', sessionId, undefined, line);
    setCookie(sessionCookies.store(secret, SESSION_SECONDS));
    return { session: await readSession(sql, caller, sessionId) };
  },
});
