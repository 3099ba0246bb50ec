import type { Contract } from '../../clients/node/index.ts';
import type { Reader } from './tool.ts';

type Which = { billingId?: string; workspaceId?: string; externalMeterId?: string };
type BillingRecord = Contract['get /api/v1/customer-billing/{bid}']['output']['billing'];

/** The billing record that is meant: by its id, or by its workspace and meter. */
export async function recordOf(which: Which, reader: Reader, options: { signal: AbortSignal }): Promise<BillingRecord> {
  const { billingId, workspaceId, externalMeterId } = which;
  if (billingId !== undefined) return (await reader.billing.getById({ bid: billingId }, options)).billing;
  if (workspaceId === undefined || externalMeterId === undefined)
    throw new Error('Give billingId, or workspaceId with externalMeterId.');
  return (await reader.billing.get({ workspaceId, externalMeterId }, options)).billing;
}
