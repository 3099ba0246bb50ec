import { Type } from 'typebox';
import { CREDITS_PATTERN, creditsFromNumber, parseCredits } from '../../../../shared/values/credits.ts';
import { noteReplenished } from '../../../../shared/books/credit-states.ts';
import { invalidField } from '../../../../shared/contract/errors.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, externalMeterId } from '../../../../shared/contract/schemas.ts';
import {
  billingSettings,
  presentBalance,
  requireBilling,
  requireBillingOfMeter,
} from '../../resources/billings/billings.ts';
import { addGrant } from '../../resources/grants/classes.ts';
import { readHeard } from '../../resources/grants/heard.ts';
import { route } from '../../http/route.ts';

const refill = Type.Unsafe<number | string>({
  type: ['string', 'number'],
  pattern: CREDITS_PATTERN,
  exclusiveMinimum: 0,
  description: 'credits to add, as decimal text or as a JSON number; above 0, at most six decimals, at most 9000000000',
  examples: ['25.5'],
});

export const refillBilling = route('post', '/api/v1/customer-billing/refill', {
  summary: 'Add credits to a billing record',
  description:
    'Adds credits to what was bought, and writes a row into the ledger. A repeat with the same Idempotency-Key adds nothing.',
  permission: 'billing:write',
  body: object({ workspaceId: id('workspace'), externalMeterId, refill }),
  response: object({ billing }),
  errors: ['workspace_forbidden', 'billing_not_found', 'credits_too_large'],

  async handle({ sql, body, caller, changed, redis, requestId, clock }) {
    const amountMicros = typeof body.refill === 'string' ? parseCredits(body.refill) : creditsFromNumber(body.refill);
    if (!amountMicros)
      throw invalidField('/refill', 'must be above 0 and at most 9000000000, with at most six decimals');

    const before = await requireBillingOfMeter(sql, caller, body, { lock: true });
    const balance = await readHeard(redis, before);
    const nowMs = clock.now();
    const grant = { id: newId('grant'), amountMicros, priority: 50, beginsAt: nowMs, expiresAt: null };
    await addGrant(sql, before, grant, { ...caller, requestId }, nowMs, { limited: false });
    const row = await requireBilling(sql, caller, before.id);
    await noteReplenished(sql, [row.id]);
    changed('billing', row.id, { before: billingSettings(before), after: billingSettings(row), shards: [row.shard] });
    return { billing: presentBalance(row, balance, amountMicros) };
  },
});
