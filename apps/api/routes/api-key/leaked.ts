import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { findKeyTexts } from '../../../../shared/values/find-key-texts.ts';
import { findForeignTexts } from '../../../../shared/values/find-words.ts';
import { hashKeyText, maskForeignText, maskKeyText } from '../../../../shared/values/key-text.ts';
import {
  disableLeakedKeys,
  hasImported,
  revokeLeakedLinks,
  revokeLeakedTokens,
} from '../../resources/revocations/leaks.ts';
import { route } from '../../http/route.ts';

const MOST_SECRETS = 200;

const masked = Type.String({
  maxLength: 64,
  description: 'the secret without its middle part',
  examples: ['acme_17aT****JpQ1'],
});
const tokenResult = Type.Enum(['revoked', 'was_revoked', 'reported'], {
  description:
    'revoked by this call, revoked before, or reported alone, because your token lacks the permission to revoke it',
});

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
    accessTokens: Type.Array(object({ id: id('access token'), maskedToken: masked, result: tokenResult }), {
      maxItems: MOST_SECRETS,
    }),
    linkTokens: Type.Array(object({ id: id('link token'), maskedToken: masked, result: tokenResult }), {
      maxItems: MOST_SECRETS,
    }),
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
    const foreign = (await hasImported(sql, caller))
      ? await findForeignTexts(body.text, caller.teamId)
      : new Map<string, string>();
    const keys = await disableLeakedKeys(sql, caller, [...hashes, ...foreign.keys()]);
    if (keys.found.length > MOST_SECRETS) throw new ApiError('too_many_secrets');
    const links = await revokeLeakedLinks(sql, caller, hashes);
    const tokens = await revokeLeakedTokens(sql, caller, hashes);
    for (const { recorded } of [keys, links, tokens]) for (const one of recorded) changed(one.resource, one.id, one);
    const found = new Set([...keys.found, ...links.found, ...tokens.found].map(({ hash }) => hash));
    const masksOf = ({
      hash,
      ...rest
    }: {
      hash: string;
      id: string;
      result: 'revoked' | 'was_revoked' | 'reported';
    }) => ({
      ...rest,
      maskedToken: masks.get(hash)!,
    });
    return {
      keys: keys.found.map(({ hash, ...rest }) => {
        return { ...rest, maskedKey: masks.get(hash) ?? maskForeignText(foreign.get(hash)!) };
      }),
      accessTokens: tokens.found.map(masksOf),
      linkTokens: links.found.map(masksOf),
      notFound: [...masks].filter(([hash]) => !found.has(hash)).map(([, mask]) => mask),
    };
  },
});
