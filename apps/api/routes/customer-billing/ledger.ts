import { formatCredits } from '../../../../shared/values/credits.ts';
import { credits, id, named, object, requestIdText, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { requireBilling } from '../../resources/billings/billings.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';

const ledgerRow = named(
  'LedgerRow',
  object({
    id: id('ledger row'),
    billingId: id('billing record'),
    amount: credits('credits added'),
    totalCredits: credits('totalCredits after the refill'),
    tokenId: id('access token', ' that made the refill'),
    requestId: requestIdText('refill-42'),
    createdAt: timestamp('when the credits were added'),
  }),
);

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/ledger',
  tag: 'Customer billing',
  operationId: 'listLedger',
  summary: 'List the refills of a billing record, oldest first',
  description: 'Each row is one refill, with the credits that were bought up to it.',
  permission: 'billing:read',
  params: object({ bid: id('billing record') }),
  query: object(pageParameters),
  response: object({ ledger: pageItems(ledgerRow), nextCursor }),
  errors: ['billing_not_found'],

  async handle({ sql, params, query, caller }) {
    const { id: billingId } = await requireBilling(sql, caller, params.bid);
    const read = (after: string, take: number) => sql<LedgerRow[]>`
      select id, amount_micros, total_micros, token_id, request_id, created_at from credit_ledger
      where billing_id = ${billingId} and id > ${after}
      order by id limit ${take}`;
    const present = ({ id, amountMicros, totalMicros, tokenId, requestId, createdAt }: LedgerRow) => ({
      id,
      billingId,
      amount: formatCredits(amountMicros),
      totalCredits: formatCredits(totalMicros),
      tokenId,
      requestId,
      createdAt: createdAt.toISOString(),
    });
    const { items, next } = await readPage(query, `ledger of ${billingId}`, read, present);
    return { ledger: items, ...next };
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
