import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { hashKeyText, makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { route, type Services } from '../../http/route.ts';
import { apiKey, apiKeyWithText, keys, readKey, requireKey } from '../../resources/keys/keys.ts';

const MAX_GRACE_SECONDS = 7 * 86_400;
// Each change of a key writes every secret that works.
const MOST_EARLIER_SECRETS = 10;
// A link may reach others than its customer. Each rotation leaves a secret and a line of the audit log.
const MOST_BY_LINKS_IN_AN_HOUR = 10;

/** For how long earlier secrets go on, in a request. */
export const graceSeconds = Type.Integer({
  minimum: 0,
  maximum: MAX_GRACE_SECONDS,
  default: 0,
  description:
    'for how long at most the 10 latest earlier secrets stay valid beside the new one, with the same limits and credits; 0: not at all',
});

export const rotateKey = route('post', '/api/v1/workspace/{id}/api-key/{akid}/rotate', {
  summary: 'Give an API key a new secret; only this answer contains it',
  description: 'The earlier secret keeps verifying for `graceSeconds`. The key keeps its id, settings and usage.',
  permission: 'key:write',
  bodyOptional: true,
  body: object({ graceSeconds: Type.Optional(graceSeconds) }),
  response: object({ apiKey: apiKeyWithText }),
  errors: ['key_deleted'],

  async handle(call) {
    return { apiKey: await giveNewSecret(call, call.params, call.body) };
  },
});

export const endEarlierSecrets = route('delete', '/api/v1/workspace/{id}/api-key/{akid}/earlier-secrets', {
  summary: 'End the earlier secrets of an API key now, where a rotation lets them go on',
  description: 'They get INVALID before the answer. The current secret, the settings and the usage stay.',
  permission: 'key:write',
  response: object({ apiKey }),
  errors: ['key_deleted'],

  async handle({ sql, params, caller, changed }) {
    const before = await requireKey(sql, caller, params, { lock: true });
    if (before.deleted) throw new ApiError('key_deleted');
    const ended = await sql<{ pointerShard: number | null }[]>`
      update key_texts set replaced_at = now(), valid_until = null
      where key_id = ${params.akid} and valid_until > extract(epoch from now()) * 1000
      returning pointer_shard`;
    await sql`update api_keys set version = version + 1, updated_at = now() where id = ${params.akid}`;
    // Also where none is left: that they ended may be stored but not yet in force.
    const shards = [before.shard, ...ended.flatMap(({ pointerShard }) => pointerShard ?? [])];
    return { apiKey: keys.say(changed, { before, after: await readKey(sql, params), shards }) };
  },
});

type Rotating = Pick<Services, 'sql' | 'changed' | 'clock'> & { caller: Caller };

/** Gives a key a new secret. `linkTokenId` names the link by which its customer does it, for the audit log. */
export async function giveNewSecret(
  { sql, caller, changed, clock }: Rotating,
  params: { id: string; akid: string },
  { graceSeconds, linkTokenId }: { graceSeconds?: number | undefined; linkTokenId?: string },
) {
  const before = await requireKey(sql, caller, params, { lock: true });
  const { shard, prefix, deleted } = before;
  if (deleted) throw new ApiError('key_deleted');
  if (linkTokenId !== undefined) await refuseTooMany(sql, params.akid);
  const now = clock.now();
  const validUntil = graceSeconds ? now + graceSeconds * 1000 : null;
  const text = makeKeyText(prefix, shard);

  // All secrets that still work: a rotation without grace also ends the grace of earlier ones.
  const ended = await sql<{ pointerShard: number | null }[]>`
    with working as (
      select hash, replaced_at, created_at from key_texts where key_id = ${params.akid} and replaced_at is null
      union all
      select hash, replaced_at, created_at from key_texts where key_id = ${params.akid} and valid_until > ${now}
    ), latest as (
      select hash from working order by replaced_at is null desc, created_at desc limit ${MOST_EARLIER_SECRETS}
    )
    update key_texts set replaced_at = now(),
      valid_until = case when ${validUntil !== null} and hash in (select hash from latest)
                         then least(valid_until, ${validUntil}::bigint) end
    where hash in (select hash from working)
    returning pointer_shard`;
  await sql`
    insert into key_texts (hash, team_id, key_id) values (${hashKeyText(text)}, ${caller.teamId}, ${params.akid})`;
  await sql`
    update api_keys set masked_key = ${maskKeyText(text)}, version = version + 1, updated_at = now()
    where id = ${params.akid}`;
  const rotated = keys.recorded({
    before,
    after: await readKey(sql, params),
    shards: [shard, ...ended.flatMap(({ pointerShard }) => pointerShard ?? [])],
    step: { type: 'key.rotated', workspaceId: params.id },
  });
  changed({ ...rotated, after: { ...rotated.after, ...(linkTokenId !== undefined && { linkTokenId }) } });
  return { ...rotated.after!, key: text };
}

async function refuseTooMany(sql: Query, keyId: string): Promise<void> {
  const [{ secrets, seconds }] = await sql<[{ secrets: number; seconds: number | null }]>`
    select count(*)::int as secrets, ceil(extract(epoch from min(created_at) + interval '1 hour' - now()))::int as seconds
    from (select created_at from key_texts where key_id = ${keyId} and created_at > now() - interval '1 hour'
          order by created_at desc limit ${MOST_BY_LINKS_IN_AN_HOUR}) as latest`;
  if (secrets < MOST_BY_LINKS_IN_AN_HOUR) return;
  throw new ApiError('too_many_rotations', { headers: { 'Retry-After': String(Math.max(1, seconds ?? 1)) } });
}
