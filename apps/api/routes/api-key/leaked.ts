import { Type, type Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object, plainText } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { findForeignTexts, findKeyTexts } from '../../../../shared/values/find-secrets.ts';
import { hashKeyText, maskForeignText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { linksInReach } from '../../resources/access/link-tokens.ts';
import { accessTokens, withinReach, type TokenRow } from '../../resources/access/tokens.ts';
import { disableLockedKeys } from '../../resources/keys/keys.ts';
import type { Recorded, SayChanged } from '../../resources/record.ts';
import { revokedToken, revokeLinkTokens, revokeToken } from '../../resources/revocations/revocations.ts';
import { route } from '../../http/route.ts';

const MOST_SECRETS = 200;

const masked = plainText(64, 'the secret without its middle part', 'acme_17aT****JpQ1');
const tokenResult = Type.Enum(['revoked', 'was_revoked', 'reported'], {
  description:
    'revoked by this call, revoked before, or reported alone, because your token lacks the permission to revoke it',
});
const tokensOf = (kind: 'access token' | 'link token') =>
  Type.Array(object({ id: id(kind), maskedToken: masked, result: tokenResult }), { maxItems: MOST_SECRETS });

export const reportLeakedSecrets = route('post', '/api/v1/api-key/leaked', {
  summary: 'Report secrets that leaked: keys in the text are disabled, tokens revoked',
  description: 'Finds secrets of your team in any text, such as a log or a commit. Secrets of others change nothing.',
  permission: 'key:write',
  revokes: true,
  body: object({
    text: Type.String({
      minLength: 1,
      maxLength: 60_000,
      description: 'where secrets may stand: part of a log, a commit, a message; it is neither stored nor logged',
      examples: ['GET /v1/documents x-api-key: acme_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1'],
    }),
  }),
  response: object({
    keys: Type.Array(
      object({
        id: id('API key'),
        workspaceId: id('workspace'),
        maskedKey: masked,
        result: Type.Enum(['disabled', 'was_disabled', 'replaced', 'deleted'], {
          description:
            'disabled by this call, disabled before, or of no use: replaced by a rotation whose grace is over, or deleted',
        }),
      }),
      { maxItems: MOST_SECRETS },
    ),
    accessTokens: tokensOf('access token'),
    linkTokens: tokensOf('link token'),
    notFound: Type.Array(masked, {
      maxItems: MOST_SECRETS,
      description:
        'secrets with a right checksum that are not of your team, or not within your reach, or of no server at all',
    }),
  }),
  errors: ['too_many_secrets'],

  async handle({ sql, body, caller, changed }) {
    const texts = findKeyTexts(body.text, MOST_SECRETS + 1);
    if (texts.length > MOST_SECRETS) throw new ApiError('too_many_secrets');
    const masks = new Map(texts.map((text) => [hashKeyText(text), maskKeyText(text)]));
    const hashes = [...masks.keys()];
    const mayBeForeign = await hasImported(sql, caller);
    const foreign = mayBeForeign ? await findForeignTexts(body.text, caller.teamId) : new Map<string, string>();
    const keys = await disableKeys(sql, caller, [...hashes, ...foreign.keys()], changed);
    if (keys.length > MOST_SECRETS) throw new ApiError('too_many_secrets');
    const links = await revokeLinks(sql, caller, hashes, changed);
    const tokens = await revokeTokens(sql, caller, hashes, changed);
    const found = new Set([...keys, ...links, ...tokens].map(({ hash }) => hash));
    const masked = ({ hash, ...rest }: LeakedToken) => ({ ...rest, maskedToken: masks.get(hash)! });
    return {
      keys: keys.map(({ hash, ...rest }) => {
        return { ...rest, maskedKey: masks.get(hash) ?? maskForeignText(foreign.get(hash)!) };
      }),
      accessTokens: tokens.map(masked),
      linkTokens: links.map(masked),
      notFound: [...masks].filter(([hash]) => !found.has(hash)).map(([, mask]) => mask),
    };
  },
});

type Leaked<Result extends string> = { hash: string; id: string; result: Result };
type LeakedKey = Leaked<'disabled' | 'was_disabled' | 'replaced' | 'deleted'> & { workspaceId: string };
type LeakedToken = Leaked<Static<typeof tokenResult>>;

/** Whether the caller's team has ever imported a key: its secret may look like any word. */
async function hasImported(sql: Query, { teamId }: Caller): Promise<boolean> {
  const [row] = await sql<[{ found: boolean }]>`
    select exists (select from key_texts where imported and team_id = ${teamId}) as found`;
  return row.found;
}

/** Disables the keys whose secrets have these hashes, except where the secret works no more. */
async function disableKeys(sql: Query, caller: Caller, hashes: string[], changed: SayChanged): Promise<LeakedKey[]> {
  // A secret that a rotation replaced, and whose grace is over, opens nothing: its key goes on with the newer one.
  const found = await sql<LeakedKey[]>`
    select t.hash, k.id, k.workspace_id,
           case when k.deleted_at is not null then 'deleted'
                when t.replaced_at is not null and coalesce(t.valid_until, 0) <= extract(epoch from now()) * 1000 then 'replaced'
                when k.enabled then 'disabled' else 'was_disabled' end as result
    from key_texts t join api_keys k on k.id = t.key_id
      join workspaces w on w.id = k.workspace_id and w.deleted_at is null
    where t.hash = any(${hashes}) and k.team_id = ${caller.teamId}
      ${caller.workspaceIds ? sql`and k.workspace_id = any(${[...caller.workspaceIds]})` : sql``}
    order by k.id, t.hash for no key update of k`;
  const disabled = new Set(found.filter(({ result }) => result === 'disabled').map(({ id }) => id));
  changed(...(await disableLockedKeys(sql, [...disabled])));
  return found;
}

/** Revokes the access tokens with these hashes and what they made, if the caller may revoke; else it reports them alone. */
async function revokeTokens(sql: Query, caller: Caller, hashes: string[], changed: SayChanged): Promise<LeakedToken[]> {
  const mayRevoke = caller.permissions.has('token:write');
  const rows = await sql<(TokenRow & { hash: string; revokedWithDescendants: boolean })[]>`
    select hash, revoked_with_descendants, ${accessTokens.columns(sql)} from access_tokens
    where hash = any(${hashes}) and ${withinReach(sql, caller)} order by id for no key update`;
  for (const { id, revoked, revokedWithDescendants } of rows) {
    // Also one that was revoked alone: whoever has its secret may have revoked it to keep what it made.
    if (revokedWithDescendants || !mayRevoke) continue;
    const { row, below } = await revokeToken(sql, id);
    const again: Recorded = { resource: 'access_token', id, shards: [row.shard] };
    changed(revoked ? again : revokedToken(row), ...below.map(revokedToken));
  }
  return rows.map(({ hash, id, revoked }) => ({ hash, id, result: resultOf(revoked, mayRevoke) }));
}

/** Revokes the link tokens with these hashes, if the caller may revoke them; else it reports them alone. */
async function revokeLinks(sql: Query, caller: Caller, hashes: string[], changed: SayChanged): Promise<LeakedToken[]> {
  const mayRevoke = caller.permissions.has('link:write');
  const rows = await sql<{ id: string; hash: string; revokedAt: Date | null }[]>`
    select id, hash, revoked_at from link_tokens where hash = any(${hashes}) and ${linksInReach(sql, caller)}
    order by id for no key update`;
  if (mayRevoke) changed(...(await revokeLinkTokens(sql, sql`id = any(${rows.map(({ id }) => id)})`)));
  return rows.map(({ hash, id, revokedAt }) => ({ hash, id, result: resultOf(revokedAt !== null, mayRevoke) }));
}

function resultOf(wasRevoked: boolean, mayRevoke: boolean): LeakedToken['result'] {
  return wasRevoked ? 'was_revoked' : mayRevoke ? 'revoked' : 'reported';
}
