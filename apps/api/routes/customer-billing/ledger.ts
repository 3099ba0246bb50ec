import { Type } from 'typebox';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { credits, id, object, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { requireBilling } from '../../resources/billings.ts';
import { nextCursor, pageOf, pageParameters } from '../../http/pages.ts';
import { route } from '../../http/route.ts';

const ledgerRow = object({
  id: id('ledger row'),
  billingId: id('billing record'),
  amount: credits('credits added'),
  totalCredits: credits('totalCredits after the refill'),
  tokenId: id('access token', ' that made the refill'),
  requestId: Type.String({ description: 'X-Request-Id of the request', examples: ['refill-42'] }),
  createdAt: timestamp('when the credits were added'),
});

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/ledger',
  tag: 'Customer billing',
  summary: 'List the refills of a billing record, oldest first',
  permission: 'billing:read',
  params: object({ bid: id('billing record') }),
  query: object(pageParameters),
  response: object({ ledger: Type.Array(ledgerRow), nextCursor }),
  errors: ['billing_not_found'],

  async handle({ sql, params, query, caller }) {
    const { id: billingId } = await requireBilling(sql, caller, params.bid);
    const { after, take, cut } = pageOf(query, `ledger of ${billingId}`);
    const rows = await sql<LedgerRow[]>`
      select id, amount_micros, total_micros, token_id, request_id, created_at from credit_ledger
      where billing_id = ${billingId} and id > ${after}
      order by id limit ${take}`;
    const { page, next } = cut(rows);
    const ledger = page.map(({ id, amountMicros, totalMicros, tokenId, requestId, createdAt }) => ({
      id,
      billingId,
      amount: formatCredits(amountMicros),
      totalCredits: formatCredits(totalMicros),
      tokenId,
      requestId,
      createdAt: createdAt.toISOString(),
    }));
    return { ledger, ...next };
  },
});

type LedgerRow = {
  id: string;
  amountMicros: number;
  totalMicros: number;
  tokenId: string;
  requestId: string;
  createdAt: Date;
};
