import { Type } from 'typebox';
import { keyShard } from '../../../shared/values/key-text.ts';
import { id, instant, object, textOf } from '../../../shared/contract/schema-kinds.ts';
import { customerId } from '../../../shared/contract/schemas.ts';

export const LINK_TOKEN_PREFIX = 'lt';

/** The billing that a link token is to link. */
export const externalBillingId = textOf(256, 'your own id of the billing that is to be linked', 'inv_2026_11');

/** What a link token is worth, section 2 of the specification. The caller's own expired or revoked ones keep their fields. */
export const linkTokenResult = object({
  valid: Type.Boolean({ description: 'whether it is in force', examples: [true] }),
  expiresAt: Type.Optional(instant('when it expires')),
  workspaceId: Type.Optional(id('workspace')),
  customerId: Type.Optional(customerId),
  externalBillingId: Type.Optional(externalBillingId),
});

export type LinkTokenRow = {
  id: string;
  valid: boolean;
  expiresAt: number;
  workspaceId: string;
  customerId: string;
  externalBillingId: string | null;
};

/** Whether a text has a link token's form; any other is unknown without asking Postgres. */
export function isLinkToken(text: string): boolean {
  return text.startsWith(`${LINK_TOKEN_PREFIX}_`) && keyShard(text) !== undefined;
}

/** A row as it is answered. */
export function presentLinkToken({ valid, expiresAt, workspaceId, customerId, externalBillingId }: LinkTokenRow) {
  return {
    valid,
    expiresAt,
    workspaceId,
    customerId,
    ...(externalBillingId !== null && { externalBillingId }),
  };
}
