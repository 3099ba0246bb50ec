import { Type } from 'typebox';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { portalOf } from '../../resources/access/portals.ts';
import { removeSession, storeSession } from '../../resources/access/sessions.ts';

export const openPortal = route('post', '/portal/session', {
  summary: 'Open the portal with a link token, sent as X-Keytally-Link',
  description: 'The answer sets a cookie that stands for the link token.',
  portal: 'link token',
  status: 201,
  response: object({ opened: Type.Literal(true, { examples: [true] }) }),

  async handle({ sql, caller, portalCookies, setCookie, changed, clock }) {
    const { secret, sessionId, line } = await storeSession(sql, caller);
    changed('session', sessionId, { after: line });
    const secondsLeft = Math.max(1, Math.ceil((portalOf(caller).expiresAt - clock.now()) / 1000));
    setCookie(portalCookies.store(secret, secondsLeft));
    return { opened: true as const };
  },
});

export const leavePortal = route('delete', '/portal/session', {
  summary: 'Leave the portal',
  description: 'The session ends, whoever has its cookie. The link goes on.',
  portal: 'session',
  response: object({ ended: Type.Literal(true, { examples: [true] }) }),

  async handle({ sql, caller, portalCookies, setCookie, changed }) {
    const line = await removeSession(sql, caller);
    changed('session', caller.sessionId!, { before: line });
    setCookie(portalCookies.remove());
    return { ended: true as const };
  },
});
