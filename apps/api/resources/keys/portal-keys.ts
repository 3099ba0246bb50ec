import { named, object, secretText } from '../../../../shared/contract/schema-kinds.ts';
import { present } from '../rows.ts';
import { apiKey, type presentKey } from './keys.ts';

// What the team notes about a key (metadata, addresses, scopes, limits) is the team's.
const { id, name, maskedKey, enabled, expiresAt, createdAt, lastUsedAt } = apiKey.properties;
const fields = { id, name, maskedKey, enabled, expiresAt, createdAt, lastUsedAt };

/** An API key as its customer sees it. */
export const portalKey = named('PortalKey', object(fields));
export const portalKeyWithText = named(
  'PortalKeyWithSecret',
  object({ ...fields, key: secretText('the key itself; only this answer contains it', 'acme') }),
);

/** A key as its customer sees it. */
export function presentPortalKey(key: ReturnType<typeof presentKey>) {
  return present(portalKey, { expiresAt: undefined, lastUsedAt: undefined, ...key });
}
