import { Type } from 'typebox';
import { MOST_TEXT, named, object, plainText, whole } from '../../../../shared/contract/schema-kinds.ts';
import { grantErrors } from '../../resources/grants/grants.ts';
import { importedKey, importKeys as importEach } from '../../resources/keys/imported-keys.ts';
import { apiKey, keys } from '../../resources/keys/keys.ts';
import { route } from '../../http/route.ts';

const MOST_KEYS = 100;
const atMost = { minItems: 1, maxItems: MOST_KEYS };

const itemError = object({
  code: whole('as in answers that refuse a whole request', 40930),
  message: Type.String({ maxLength: MOST_TEXT, examples: ['The secret is a key already.'] }),
  details: Type.Optional(
    Type.Array(
      object({
        path: plainText(MOST_TEXT, 'a JSON pointer into the item', '/name'),
        message: Type.String({ maxLength: MOST_TEXT, examples: ['must be given'] }),
      }),
      { maxItems: 1_000 },
    ),
  ),
});

export const importKeys = route('post', '/api/v1/api-key/import', {
  summary: 'Import API keys that were made elsewhere, up to 100; each item stands alone',
  description:
    'Takes keys that another system made, as plain text or by hash. Each gets its key or its error by its place; what was imported before is told, and not made twice.',
  permission: 'key:write',
  grows: true,
  body: object({ keys: Type.Array(importedKey, atMost) }),
  accepts: object({ keys: Type.Array(Type.Unknown(), atMost) }),
  response: object({
    results: Type.Array(
      named(
        'ImportResult',
        object({
          result: Type.Optional(
            Type.Enum(['imported', 'existing', 'restored'], {
              description:
                'imported by this call; or the secret was a key of this workspace before, which stays as it is; or it was deleted, and this call brought it back',
            }),
          ),
          apiKey: Type.Optional(apiKey),
          error: Type.Optional(itemError),
        }),
      ),
      { ...atMost, description: 'what became of each item, by its place' },
    ),
  }),
  errors: [
    'key_text_wrong',
    'key_text_weak',
    'workspace_forbidden',
    'expires_at_past',
    'unknown_scope',
    'key_taken',
    'key_metered',
    'grant_unlimited',
    'grant_schedule_limit_reached',
    ...grantErrors,
  ],

  async handle({ sql, redis, body, caller, changed, clock, requestId }) {
    const { results, made } = await importEach({ sql, redis, caller, requestId, now: clock.now() }, body.keys);
    const ids = results.flatMap((one) => ('keyId' in one ? [one.keyId] : []));
    const rows = await keys.page(sql, sql`id = any(${ids})`, '', ids.length);
    const known = new Map(rows.map((row) => [row.id, row]));
    for (const { id, shards, workspaceId, before, billed = [] } of made) {
      keys.say(changed, { before, after: known.get(id)!, shards, step: { type: 'key.created', workspaceId } });
      changed(...billed);
    }
    return {
      results: results.map((one) => {
        if ('keyId' in one) return { result: one.result, apiKey: keys.present(known.get(one.keyId)!) };
        const { code, message, details } = one.error;
        return { error: { code, message, ...(details && { details }) } };
      }),
    };
  },
});
