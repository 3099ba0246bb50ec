import { object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { grantRows } from '../../resources/grants/rows.ts';
import { grant, grantPresenter } from '../../resources/grants/grants.ts';
import { portalOf, requirePortalBilling } from '../../resources/access/portals.ts';
import { readAccount } from '../../sync/accounts.ts';

export default route({
  method: 'get',
  path: '/api/v1/portal/grants',
  tag: 'Portal',
  operationId: 'listPortalGrants',
  summary: "List the grants of the link token's billing record, oldest first",
  description: "It shows while all keys of the record are the customer's. Their metadata is left out.",
  portal: 'session',
  query: object(pageParameters),
  response: object({ grants: pageItems(grant), nextCursor }),
  errors: ['billing_not_found', 'redis_unavailable'],

  async handle({ sql, query, caller, redis }) {
    const record = await requirePortalBilling(sql, portalOf(caller));
    const present = grantPresenter(record.id, await readAccount(redis, record));
    const read = (after: string, take: number) => grantRows(sql, record.id, { after, take });
    const { items, next } = await readPage(query, `grants of ${record.id}`, read, (row) =>
      present({ ...row, metadata: null }),
    );
    return { grants: items, ...next };
  },
});
