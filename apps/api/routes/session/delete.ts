import { Type } from 'typebox';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { endSession } from '../../resources/access/sessions.ts';

export default route({
  method: 'delete',
  path: '/console/session',
  tag: 'Access tokens',
  operationId: 'deleteSession',
  summary: 'Sign out of the console',
  description: 'The session ends, whoever has its cookie.',
  anyToken: true,
  writes: true,
  response: object({ ended: Type.Literal(true, { examples: [true] }) }),

  async handle({ sql, caller, sessionCookies, setCookie, audit }) {
    const line = await endSession(sql, caller);
    audit('session', caller.sessionId!, line, undefined);
    setCookie(sessionCookies.remove());
    return { ended: true as const };
  },
});
