import { Type } from 'typebox';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { customerId, externalMeterId } from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { apiKey, presentKey, selectKeys, type KeyRow } from '../../resources/keys/keys.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace/{id}/api-keys',
  tag: 'API keys',
  operationId: 'listKeys',
  summary: 'List the API keys of a workspace, also deleted ones unless filtered out',
  description:
    'Pages follow by `cursor`, in the order in which the keys were made. With `search`, `enabled` or `deleted` a page may have few keys, or none, while `nextCursor` leads on.',
  permission: 'key:read',
  params: object({ id: id('workspace') }),
  query: object({
    ...pageParameters,
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description: 'only keys with this text in their name, customerId or masked key, in any case',
      }),
    ),
    customerId: Type.Optional(customerId),
    externalMeterId: Type.Optional(externalMeterId),
    enabled: Type.Optional(Type.Boolean({ description: 'only keys that are enabled, or only those that are not' })),
    deleted: Type.Optional(Type.Boolean({ description: 'only keys that were deleted, or only those that were not' })),
  }),
  response: object({ apiKeys: pageItems(apiKey), nextCursor }),
  errors: ['workspace_forbidden'],

  async handle({ sql, params, query, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const { search, customerId, externalMeterId, enabled, deleted } = query;
    const read = (after: string, take: number) =>
      selectKeys(
        sql,
        sql`
        where k.workspace_id = ${params.id} and k.id > ${after}
          ${customerId === undefined ? sql`` : sql`and k.customer_id = ${customerId}`}
          ${externalMeterId === undefined ? sql`` : sql`and k.external_meter_id = ${externalMeterId}`}
        order by k.id limit ${take}`,
      );
    const wanted = search?.toLowerCase();
    // No index leads to these, and one statement could read every key of the workspace.
    const isWanted = (row: KeyRow) =>
      (enabled === undefined || row.enabled === enabled) &&
      (deleted === undefined || row.deleted === deleted) &&
      (wanted === undefined || holdsText(row, wanted));
    const { items, next } = await readPage(query, `keys of ${params.id}`, read, (row) =>
      isWanted(row) ? presentKey(row) : undefined,
    );
    return { apiKeys: items, ...next };
  },
});

function holdsText({ name, customerId, maskedKey }: KeyRow, wanted: string): boolean {
  return [name, customerId, maskedKey].some((text) => text?.toLowerCase().includes(wanted));
}
