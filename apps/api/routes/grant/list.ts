import { Type } from 'typebox';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { readAccount } from '../../sync/accounts.ts';
import { requireBilling } from '../../resources/billings/billings.ts';
import { grantRows } from '../../resources/grants/rows.ts';
import { grant, grantPresenter, grantStates } from '../../resources/grants/grants.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/grants',
  tag: 'Customer billing',
  operationId: 'listGrants',
  summary: 'List the grants of a billing record, oldest first',
  description:
    'With what of each was used, has expired and remains. First credits and refills are among them. With `state`, a page may hold fewer items than asked for, and still have a next one.',
  permission: 'billing:read',
  params: object({ bid: id('billing record') }),
  query: object({
    ...pageParameters,
    state: Type.Optional(Type.Enum([...grantStates], { description: 'only grants in this state' })),
  }),
  response: object({ grants: pageItems(grant), nextCursor }),
  errors: ['billing_not_found', 'redis_unavailable'],

  async handle({ sql, params, query, caller, redis }) {
    const record = await requireBilling(sql, caller, params.bid);
    const present = grantPresenter(record.id, await readAccount(redis, record));
    const read = (after: string, take: number) => grantRows(sql, record.id, { after, take });
    const wanted = (row: Parameters<typeof present>[0]) => {
      const item = present(row);
      return query.state === undefined || item.state === query.state ? item : undefined;
    };
    const { items, next } = await readPage(query, `grants of ${record.id}`, read, wanted);
    return { grants: items, ...next };
  },
});
