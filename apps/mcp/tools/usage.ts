import { Type } from 'typebox';
import { amount, cursor, customer, ids, meter, nextCursor, timezone } from '../schemas.ts';
import { shown, tool, withUntrusted } from '../tool.ts';

const MOST = 100;
const BY_DEFAULT = 50;
const groups = ['billing', 'usageName', 'key', 'route', 'customer'] as const;

const row = withUntrusted(
  {
    start: Type.String({ description: 'when the period begins' }),
    totalBillingUsage: amount,
    events: Type.Integer({ description: 'number of verifications and captures' }),
    billingId: Type.Optional(ids.record),
    apiKeyId: Type.Optional(ids.key),
    other: Type.Optional(Type.Boolean({ description: 'true: all further routes together' })),
    partial: Type.Optional(Type.Boolean({ description: 'true: `from` or `to` cuts the period off' })),
  },
  {
    externalMeterId: Type.Optional(Type.String()),
    usageName: Type.Optional(Type.String()),
    route: Type.Optional(Type.String()),
    customerId: Type.Optional(Type.String()),
  },
);

export default tool({
  name: 'usage',
  title: 'Usage of a customer',
  description:
    'Sums the usage of a workspace, or of one customer, meter, record or key in it, by hour, day, week or month, and by groups. By default each of the last 30 days, by usage name. For the sum of a longer time ask with a longer interval; do not add up rows.',
  input: Type.Object({
    workspaceId: ids.workspace,
    customerId: Type.Optional(customer),
    externalMeterId: Type.Optional(meter),
    billingId: Type.Optional(ids.record),
    apiKeyId: Type.Optional(ids.key),
    from: Type.Optional(
      Type.String({ maxLength: 40, description: 'first day, YYYY-MM-DD; default: 30 days before `to`' }),
    ),
    to: Type.Optional(Type.String({ maxLength: 40, description: 'last day, included; default: today' })),
    interval: Type.Optional(Type.Enum(['hour', 'day', 'week', 'month'], { description: 'default: day' })),
    timezone,
    groupBy: Type.Optional(
      Type.Array(Type.Enum([...groups]), { minItems: 1, maxItems: groups.length, description: 'default: usageName' }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MOST, description: `most rows; default ${BY_DEFAULT}` })),
    cursor,
  }),
  output: Type.Object({
    rows: Type.Array(row),
    openFrom: Type.Optional(Type.String({ description: 'usage of periods from here on may still change' })),
    nextCursor,
  }),

  async run({ groupBy = ['usageName'], limit = BY_DEFAULT, ...asked }, reader, options) {
    const query = { ...asked, groupBy: groupBy.join(','), limit };
    const { data, openFrom, nextCursor } = await reader.usage.list(query, options);
    const more = nextCursor === undefined ? '' : ' There are more: ask again with nextCursor as cursor.';
    return {
      text: `${data.length} rows, each of one ${asked.interval ?? 'day'} by ${groupBy.join(' and ')}.${more}`,
      data: {
        rows: data.map((one) => ({
          start: one.start,
          totalBillingUsage: one.totalBillingUsage,
          events: one.events,
          ...(one.billingId !== undefined && { billingId: one.billingId }),
          ...(one.apiKeyId !== undefined && { apiKeyId: one.apiKeyId }),
          ...(one.other !== undefined && { other: one.other }),
          ...(one.partial !== undefined && { partial: one.partial }),
          untrusted: {
            ...(one.externalMeterId !== undefined && { externalMeterId: shown(one.externalMeterId) }),
            ...(one.usageName !== undefined && { usageName: shown(one.usageName) }),
            ...(one.route !== undefined && { route: shown(one.route) }),
            ...(one.customerId !== undefined && { customerId: shown(one.customerId) }),
          },
        })),
        ...(openFrom !== undefined && { openFrom }),
        ...(nextCursor !== undefined && { nextCursor }),
      },
    };
  },
});
