import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { requireBilling } from '../../resources/billings/billings.ts';
import { answerStatement, readStatement, statementForms, statementQuery } from './statement-answer.ts';
import { statement } from '../../resources/statements/statements.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/statement',
  tag: 'Customer billing',
  operationId: 'getStatement',
  summary: 'Get the statement of a billing record: opening balances, every movement, closing balances, and the proof',
  description:
    "Days and months are those of the workspace's time zone. Opening balances and movements add up to the closing ones. A closed month never changes; other ranges are views of the same sums. With `Accept: text/csv` the answer is CSV.",
  permission: 'billing:read',
  alsoPermission: 'usage:read',
  params: object({ bid: id('billing record') }),
  query: statementQuery,
  response: object({ statement }),
  alternative: statementForms,
  errors: ['billing_not_found', 'redis_unavailable', 'usage_unavailable'],

  async handle(call) {
    const billing = await requireBilling(call.sql, call.caller, call.params.bid);
    return answerStatement(await readStatement(call, billing, call.query), call.query, call.header('accept'));
  },
});
