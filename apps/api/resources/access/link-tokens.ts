import { Type } from 'typebox';
import { linkPermissions, type Caller } from '../../../../shared/contract/caller.ts';
import { hashKeyText, keyShard } from '../../../../shared/values/key-text.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { id, instant, named, object, someOf, textOf } from '../../../../shared/contract/schema-kinds.ts';
import { customerId } from '../../../../shared/contract/schemas.ts';
import { answered, columnsOf, present, tableOf, type Row } from '../rows.ts';

export const LINK_TOKEN_PREFIX = 'lt';

/** What a link token permits in the portal, besides looking. */
export const permissions = someOf(linkPermissions, {
  description: 'what the customer may do in the portal besides looking; `rotate`: rotate the own keys',
});
/** What a link token is about. */
export const linked = {
  workspaceId: id('workspace'),
  customerId,
  externalBillingId: Type.Optional(textOf(256, 'your own id of the billing to link', 'inv_2026_11')),
  billingId: Type.Optional(
    id(
      'billing record',
      " whose balance and statement the portal shows, while all of its keys are the customer's; one of the workspace",
    ),
  ),
  permissions: Type.Optional(permissions),
};

/** The result of validating a link token (section 2 of the specification). The team's own expired or revoked tokens keep their fields. */
export const linkTokenResult = named(
  'LinkToken',
  object({
    valid: Type.Boolean({ description: 'whether it is in force', examples: [true] }),
    expiresAt: Type.Optional(instant('when it expires')),
    ...linked,
    workspaceId: Type.Optional(linked.workspaceId),
    customerId: Type.Optional(customerId),
  }),
);

export type LinkTokenRow = Row<typeof linkTokenResult> & {
  id: string;
  workspaceId: string;
  customerId: string;
  expiresAt: number;
  revokedAt: Date | null;
};

const columns = columnsOf(linkTokenResult, {
  valid: 'is_in_force(link_tokens)',
  permissions: "nullif(permissions, '{}')",
});
const table = tableOf<LinkTokenRow>('link_tokens', `${columns}, id, revoked_at`, 'link_token_not_found');
export const linkTokens = answered('link_token', table, (row) => present(linkTokenResult, row));

/** Whether a text has the form of a link token; any other text is unknown, without a query. */
export function isLinkToken(text: string): boolean {
  return text.startsWith(`${LINK_TOKEN_PREFIX}_`) && keyShard(text) !== undefined;
}

/** The condition of link tokens that a caller may see: of its team and workspaces. Those of a deleted workspace are unknown. */
export function linksInReach(sql: Query, { teamId, workspaceIds }: Caller) {
  const isOfCaller = workspaceIds ? sql`and workspace_id = any(${[...workspaceIds]})` : sql``;
  return sql`team_id = ${teamId} and ${ofLiveWorkspace(sql)} ${isOfCaller}`;
}

/** The condition that a link token's workspace was not deleted. */
export function ofLiveWorkspace(sql: Query) {
  return sql`exists (select from workspaces w where w.id = link_tokens.workspace_id and w.deleted_at is null)`;
}

/** The link token of this text, if the caller may see it. */
export async function findLinkToken(sql: Query, caller: Caller, text: string): Promise<LinkTokenRow | undefined> {
  if (!isLinkToken(text)) return undefined;
  const [row] = await sql<LinkTokenRow[]>`
    select ${linkTokens.columns(sql)} from link_tokens where hash = ${hashKeyText(text)} and ${linksInReach(sql, caller)}`;
  return row;
}
