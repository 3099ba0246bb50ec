import { Type } from 'typebox';
import { ids, meter, type BillingRecord } from './schemas.ts';
import type { Options, Reader } from './tool.ts';

/** What names a billing record: its id, or its workspace and meter. */
export const which = {
  billingId: Type.Optional(ids.record),
  workspaceId: Type.Optional(ids.workspace),
  externalMeterId: Type.Optional(meter),
};
export type Which = { billingId?: string; workspaceId?: string; externalMeterId?: string };

/** The billing record that is meant. */
export async function recordOf(one: Which, reader: Reader, options: Options): Promise<BillingRecord> {
  const { billingId, workspaceId, externalMeterId } = one;
  if (billingId !== undefined) return (await reader.billing.getById({ bid: billingId }, options)).billing;
  if (workspaceId === undefined || externalMeterId === undefined)
    throw new Error('Give billingId, or workspaceId with externalMeterId.');
  return (await reader.billing.get({ workspaceId, externalMeterId }, options)).billing;
}
