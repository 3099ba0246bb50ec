import { Type } from 'typebox';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { endSession } from '../../resources/access/sessions.ts';

export default route({
  method: 'delete',
  path: '/portal/session',
  tag: 'Portal',
  operationId: 'leavePortal',
  summary: 'Leave the portal',
  description: 'The session ends, whoever has its cookie. The link goes on.',
  portal: 'session',
  writes: true,
  response: object({ ended: Type.Literal(true, { examples: [true] }) }),

  async handle({ sql, caller, portalCookies, setCookie, audit }) {
    const line = await endSession(sql, caller);
    audit('session', caller.sessionId!, line, undefined);
    setCookie(portalCookies.remove());
    return { ended: true as const };
  },
});
