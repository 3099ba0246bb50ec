import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { graceSeconds, rotateKey } from '../api-key/rotation.ts';
import { portalKeyWithText, presentPortalKey } from '../../resources/keys/portal-keys.ts';
import { portalOf, requirePortalKey } from '../../resources/access/portals.ts';

export default route({
  method: 'post',
  path: '/api/v1/portal/key/{akid}/rotate',
  tag: 'Portal',
  operationId: 'rotatePortalKey',
  summary: 'Give one of the own API keys a new secret; only this answer contains it',
  description:
    'The link token must permit `rotate`. The earlier secret keeps verifying for `graceSeconds`. The key keeps its id, settings and usage. A key has at most 10 new secrets in an hour this way.',
  portal: 'session',
  writes: true,
  params: object({ akid: id('API key') }),
  bodyOptional: true,
  body: object({ graceSeconds: Type.Optional(graceSeconds) }),
  response: object({ apiKey: portalKeyWithText }),
  errors: ['permission_missing', 'key_not_found', 'key_deleted', 'too_many_rotations'],

  async handle(call) {
    const portal = portalOf(call.caller);
    const { workspaceId, linkTokenId, mayRotate } = portal;
    const message = 'The link does not permit to rotate keys; ask for one that does where you got it.';
    if (!mayRotate) throw new ApiError('permission_missing', { message });
    await requirePortalKey(call.sql, portal, call.params.akid);
    const params = { id: workspaceId, akid: call.params.akid };
    const { key, ...rotated } = await rotateKey(call, params, { graceSeconds: call.body.graceSeconds, linkTokenId });
    return { apiKey: { ...presentPortalKey(rotated), key } };
  },
});
