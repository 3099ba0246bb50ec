import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { portalOf, requirePortalBilling } from '../../resources/access/portals.ts';
import {
  answerStatement,
  readStatement,
  statementForms,
  statementQuery,
} from '../customer-billing/statement-answer.ts';
import { statement, type StatementAnswer } from '../../resources/statements/statements.ts';

export default route({
  method: 'get',
  path: '/api/v1/portal/statement',
  tag: 'Portal',
  operationId: 'getPortalStatement',
  summary: "Get the statement of the link token's billing record",
  description:
    "It shows while all keys of the record are the customer's, with the reasons of corrections. With `Accept: text/csv` the answer is CSV.",
  portal: 'session',
  query: statementQuery,
  response: object({ statement }),
  alternative: statementForms,
  errors: ['billing_not_found', 'redis_unavailable', 'usage_unavailable'],

  async handle(call) {
    const billing = await requirePortalBilling(call.sql, portalOf(call.caller));
    const { movements, ...rest } = await readStatement(call, billing, call.query);
    return answerStatement({ ...rest, movements: movements.map(forCustomer) }, call.query, call.header('accept'));
  },
});

// Which access token made a correction concerns the team alone.
function forCustomer(movement: Movement): Movement {
  const shown = { ...movement };
  delete shown.tokenId;
  return shown;
}

type Movement = StatementAnswer['movements'][number];
