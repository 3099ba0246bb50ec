import type { Output } from '../../data/call.ts';
import type { ItemOf } from '../../data/hooks.ts';
import type { Column } from '../../parts/table.tsx';
import type { Standing } from '../../parts/text.tsx';

export type ApiKey = Output<'get /api/v1/workspace/{id}/api-key/{akid}'>['apiKey'];
/** A key as lists have it. */
export type Listed = ItemOf<'get /api/v1/workspace/{id}/api-keys'>;

/** What lists of keys show. */
export const keyColumns: readonly Column<Listed>[] = [
  { title: 'Name', width: '32%', text: 'name', link: ({ id }) => `keys/${id}` },
  { title: 'Key', code: 'maskedKey' },
  { title: 'Customer', text: ({ externalMeterId, customerId }) => externalMeterId ?? customerId, link: customerPage },
  { title: 'State', width: '7rem', state: stateOf },
  { title: 'Last used', width: '8rem', time: 'lastUsedAt', isAgo: true },
];

type Edited = {
  name: string;
  expiresAt: number | null | undefined;
  rateLimitPerSecond: number | null;
  allowedIPs: string | null;
};

/** What a form changes of a key: what it left as it was stays as somebody else has it by now, and an empty list is not none. */
export function changedIn(key: Pick<ApiKey, keyof Edited>, given: Edited) {
  const { name, expiresAt, rateLimitPerSecond, allowedIPs } = given;
  const isSame = (allowedIPs ?? '') === (key.allowedIPs ?? []).join(', ');
  return {
    ...(name !== key.name && { name }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(rateLimitPerSecond !== (key.rateLimitPerSecond ?? null) && { rateLimitPerSecond }),
    ...(!isSame && { allowedIPs: allowedIPs?.split(/[\s,]+/) ?? null }),
  };
}

/** Where a key's customer stands: its own page, or its keys where it has no credits. */
export function customerPage({ billingId, customerId }: Pick<ApiKey, 'billingId' | 'customerId'>) {
  return billingId ? `customers/${billingId}` : customerId && `keys?search=${encodeURIComponent(customerId)}`;
}

/** Whether a key may be used, and else why not. */
export function stateOf(key: Pick<ApiKey, 'enabled' | 'expiresAt'> & { deleted?: boolean }): Standing {
  if (key.deleted) return ['bad', 'Deleted'];
  return key.enabled ? stateUntil(key.expiresAt, 'Active') : ['bad', 'Disabled'];
}

/** Whether something is in force until its end, if it has one. */
export function stateUntil(expiresAt = Infinity, good: string): Standing {
  return expiresAt <= Date.now() ? ['bad', 'Expired'] : ['good', good];
}
