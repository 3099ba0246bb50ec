import { object } from '../../../../shared/contract/schema-kinds.ts';
import { apiKey, keyParams, lockKey, readKey } from '../../resources/keys/keys.ts';
import { tellKeys } from '../../resources/keys/events.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'delete',
  path: '/api/v1/workspace/{id}/api-key/{akid}',
  tag: 'API keys',
  operationId: 'deleteKey',
  summary: 'Delete an API key for good; its record stays readable',
  description:
    'Its secret gets INVALID before the answer. The record keeps its id. Only an import of its secret with `restore` brings it back.',
  permission: 'key:write',
  writes: true,
  params: keyParams,
  response: object({ apiKey }),
  errors: ['workspace_forbidden', 'key_not_found'],

  async handle({ sql, params, caller, changed, audit, clock }) {
    const { shard, deleted } = await lockKey(sql, caller, params);
    const before = await readKey(sql, params);
    if (!deleted) {
      await sql`
        update api_keys set deleted_at = now(), version = version + 1, updated_at = now() where id = ${params.akid}`;
    }
    // Also for a key that was deleted before: that deletion may be stored but not yet in force.
    changed('key', params.akid, shard);
    const apiKey = await readKey(sql, params);
    audit('api_key', params.akid, before, apiKey);
    const keys = [{ workspaceId: params.id, key: apiKey }];
    if (!deleted) await tellKeys(sql, { type: 'key.deleted', teamId: caller.teamId, keys, atMs: clock.now() });
    return { apiKey };
  },
});
