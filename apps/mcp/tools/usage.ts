import { Type } from 'typebox';
import { choice, cursor, customer, day, ids, meter, nextCursor, object, timezone } from '../schemas.ts';
import { more, tool } from '../tool.ts';

const MOST = 50;
const groups = ['billing', 'usageName', 'key', 'route', 'customer'] as const;

const row = object(
  ['start', 'totalBillingUsage', 'events', 'billingId', 'apiKeyId', 'other', 'partial'],
  ['externalMeterId', 'usageName', 'route', 'customerId'],
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
    from: day('first day, YYYY-MM-DD; default: 30 days before `to`'),
    to: day('last day, included; default: today'),
    interval: choice(['hour', 'day', 'week', 'month'], 'default: day'),
    timezone,
    groupBy: Type.Optional(
      Type.Array(Type.Enum([...groups]), { minItems: 1, maxItems: groups.length, description: 'default: usageName' }),
    ),
    cursor,
  }),
  output: Type.Object({
    rows: Type.Array(row),
    openFrom: Type.Optional(Type.String({ description: 'usage of periods from here on may still change' })),
    nextCursor,
  }),

  async run({ groupBy = ['usageName'], ...asked }, reader) {
    const { data: rows, ...rest } = await reader.usage.list({ ...asked, groupBy: groupBy.join(','), limit: MOST });
    return {
      text: `${rows.length} rows, each of one ${asked.interval ?? 'day'} by ${groupBy.join(' and ')}.${more(rest.nextCursor)}`,
      data: { rows, ...rest },
    };
  },
});
