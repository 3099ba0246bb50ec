import { Type } from 'typebox';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, makeKeyText, randomShard } from '../../../../shared/values/key-text.ts';
import { id, instant, object, secretText } from '../../../../shared/contract/schema-kinds.ts';
import { customerId } from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../../resources/access.ts';
import { externalBillingId, LINK_TOKEN_PREFIX } from '../../resources/link-tokens.ts';
import { route } from '../../http/route.ts';

const DEFAULT_SECONDS = 900;

export default route({
  method: 'post',
  path: '/api/v1/link-token',
  tag: 'Link tokens',
  operationId: 'createLinkToken',
  summary: 'Create a link token',
  description: 'A link token stands for a customer in a link that you hand out, until it ends or is revoked.',
  permission: 'link:write',
  status: 201,
  writes: true,
  body: object({
    workspaceId: id('workspace'),
    customerId,
    externalBillingId: Type.Optional(externalBillingId),
    expiresIn: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 86_400, default: DEFAULT_SECONDS, description: 'lifetime in seconds' }),
    ),
  }),
  response: object({
    linkToken: object({
      id: id('link token'),
      token: secretText('the link token; only this answer contains it', LINK_TOKEN_PREFIX),
      expiresAt: instant('when it expires'),
      workspaceId: id('workspace'),
      customerId,
      externalBillingId: Type.Optional(externalBillingId),
    }),
  }),
  errors: ['workspace_forbidden'],

  async handle({ sql, body, caller, audit }) {
    await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    const { workspaceId, customerId, externalBillingId, expiresIn = DEFAULT_SECONDS } = body;
    const token = makeKeyText(LINK_TOKEN_PREFIX, randomShard());
    const [row] = await sql<[{ id: string; expiresAt: number }]>`
      insert into link_tokens (id, team_id, workspace_id, customer_id, external_billing_id, hash, expires_at)
      values (${newId('link')}, ${caller.teamId}, ${workspaceId}, ${customerId}, ${externalBillingId ?? null},
              ${hashKeyText(token)}, floor(extract(epoch from now()) * 1000) + ${expiresIn * 1000}::bigint)
      returning id, expires_at`;
    const made = {
      expiresAt: row.expiresAt,
      workspaceId,
      customerId,
      ...(externalBillingId !== undefined && { externalBillingId }),
    };
    audit('link_token', row.id, undefined, { valid: true, ...made });
    return { linkToken: { id: row.id, token, ...made } };
  },
});
