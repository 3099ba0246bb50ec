import { Type } from 'typebox';
import { credits, id, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, customerId, externalMeterId } from '../../../../shared/contract/schemas.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { billingsAfter, orderOf, type BillingFilter } from '../../resources/billings/lists.ts';
import { copiedAmounts, creditsIn, presentAmounts } from '../../resources/billings/billings.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace/{id}/customer-billings',
  tag: 'Customer billing',
  operationId: 'listBillings',
  summary: 'List the billing records of a workspace',
  description:
    'Amounts are those of a copy, at most 60 s old; `GET /api/v1/customer-billing/{bid}` gives those of now. Pages follow by `cursor`, in the order in which the records were made; with `availableBelow` those with the least are first, with `customerId` they are in the order of their meters.',
  permission: 'billing:read',
  params: object({ id: id('workspace') }),
  query: object({
    ...pageParameters,
    externalMeterId: Type.Optional(externalMeterId),
    customerId: Type.Optional({
      ...customerId,
      description: 'only records that keys of this customer draw on, or drew on until they were deleted',
    }),
    availableBelow: Type.Optional(credits('only records with less than this available')),
  }),
  response: object({ billings: pageItems(billing), nextCursor }),
  errors: ['workspace_forbidden'],

  async handle({ sql, params, query, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const filter: BillingFilter = {
      workspaceId: params.id,
      externalMeterId: query.externalMeterId,
      customerId: query.customerId,
      belowMicros: query.availableBelow === undefined ? undefined : creditsIn('availableBelow', query.availableBelow),
    };
    const { items, next } = await readPage(
      query,
      `billings of ${params.id} by ${orderOf(filter)}`,
      (after, take) => billingsAfter(sql, filter, after, take),
      ({ row }) => presentAmounts(row, copiedAmounts(row)),
    );
    return { billings: items, ...next };
  },
});
