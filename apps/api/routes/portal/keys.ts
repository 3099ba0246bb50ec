import { object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { portalKey, presentPortalKey } from '../../resources/keys/portal-keys.ts';
import { portalOf } from '../../resources/access/portals.ts';
import { presentKey, selectKeys } from '../../resources/keys/keys.ts';

export default route({
  method: 'get',
  path: '/api/v1/portal/keys',
  tag: 'Portal',
  operationId: 'listPortalKeys',
  summary: "List the customer's own API keys, without deleted ones",
  description: 'Pages follow by `cursor`, in the order in which the keys were made.',
  portal: 'session',
  query: object(pageParameters),
  response: object({ apiKeys: pageItems(portalKey), nextCursor }),

  async handle({ sql, query, caller }) {
    const { workspaceId, customerId } = portalOf(caller);
    const read = (after: string, take: number) =>
      selectKeys(
        sql,
        sql`where k.workspace_id = ${workspaceId} and k.customer_id = ${customerId} and k.deleted_at is null
              and k.id > ${after}
            order by k.id limit ${take}`,
      );
    const list = `keys of ${customerId} in ${workspaceId}`;
    const { items, next } = await readPage(query, list, read, (row) => presentPortalKey(presentKey(row)));
    return { apiKeys: items, ...next };
  },
});
