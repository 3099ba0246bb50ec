import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { readSession, session } from '../../resources/access/sessions.ts';

export default route({
  method: 'get',
  path: '/console/session',
  tag: 'Access tokens',
  operationId: 'getSession',
  summary: 'Get the session of the console, with what its token may do now',
  description: 'Without a session it tells what the access token may do.',
  anyToken: true,
  response: object({ session }),

  async handle({ sql, caller }) {
    return { session: await readSession(sql, caller) };
  },
});
