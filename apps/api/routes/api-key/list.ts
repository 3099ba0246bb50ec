import { Type } from 'typebox';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { customerId, externalMeterId } from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { apiKey, presentKey, selectKeys } from '../../resources/keys/keys.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace/{id}/api-keys',
  tag: 'API keys',
  operationId: 'listKeys',
  summary: 'List the API keys of a workspace, also deleted ones unless filtered out',
  description: 'Pages follow by `cursor`, in the order in which the keys were made.',
  permission: 'key:read',
  params: object({ id: id('workspace') }),
  query: object({
    ...pageParameters,
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description:
          'only keys with this text in their name, customerId or masked key, in any case; a page may have few of them, or none, while `nextCursor` leads on',
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
          ${enabled === undefined ? sql`` : sql`and k.enabled = ${enabled}`}
          ${deleted === undefined ? sql`` : sql`and (k.deleted_at is not null) = ${deleted}`}
        order by k.id limit ${take}`,
      );
    const wanted = search?.toLowerCase();
    const { items, next } = await readPage(query, `keys of ${params.id}`, read, (row) =>
      wanted === undefined || holdsText(row, wanted) ? presentKey(row) : undefined,
    );
    return { apiKeys: items, ...next };
  },
});

function holdsText({ name, customerId, maskedKey }: KeyTexts, wanted: string): boolean {
  return [name, customerId, maskedKey].some((text) => text?.toLowerCase().includes(wanted));
}

type KeyTexts = { name: string; customerId: string | null; maskedKey: string };
