import type { Output } from '../data/call.ts';
import type { Fields } from './form.tsx';
import type { Kind } from './own-list.tsx';

export type Limit = NonNullable<Output<'get /api/v1/customer-billing/{bid}'>['billing']['limits']>[number];

/** The usual windows. */
export const windows = ['second', 'minute', '5 minutes', 'hour', 'day', 'week', '30 days', 'month', 'year'];

/** Limits over windows. */
export const limitKind: Kind<Limit, ReturnType<typeof fieldsOf>> = {
  one: 'limit',
  columns: [
    { title: 'Name', text: 'name' },
    { title: 'At most', amount: 'limit' },
    { title: 'Of', text: ofWhat },
    { title: 'Per', width: '18rem', text: perOf },
    { title: 'Then', text: ({ shadow }) => (shadow ? 'logs only' : 'refuses') },
  ],
  fieldsOf,
  itemIn({ unit, limit, timezone, usageName, shadow, ...given }) {
    const rare = { ...(timezone && { timezone }), ...(usageName && { usageName }), ...(shadow && { shadow }) };
    return { ...given, ...rare, unit, limit: unit === 'requests' ? Number(limit) : limit };
  },
  empty: 'No limit over a longer window. Add one to bound what is used in a minute, a day or a month.',
};

/** What a limit counts, and over which window. */
export function windowOf(limit: Limit): string {
  return `${ofWhat(limit)} per ${limit.per}`;
}

// Windows of the calendar begin at the same time for all.
function perOf({ per, timezone = 'UTC' }: Limit): string {
  return /day|week|month|year/.test(per) ? `${per}, resets at 00:00 ${timezone}` : per;
}

function ofWhat({ unit, usageName }: Limit): string {
  return usageName ? `${unit} of ${usageName}` : unit;
}

function fieldsOf({ name, limit, unit = 'requests', per = 'day', timezone, usageName, shadow }: Partial<Limit>) {
  // Others, such as 45 seconds, come from the api.
  const periods = [...new Set([...windows, per])];
  return [
    { name: 'name', label: 'Name', required: true, value: name },
    { name: 'limit', label: 'At most', as: 'credits', required: true, value: limit },
    { name: 'unit', label: 'Of', options: ['requests', 'credits'], value: unit },
    { name: 'per', label: 'Per', options: periods, value: per },
    { name: 'timezone', label: 'Time zone', value: timezone, hint: 'Of days, a week, month or year; empty: UTC.' },
    { name: 'usageName', label: 'Only the usage', value: usageName, hint: 'Empty: all of it.' },
    { name: 'shadow', label: 'Log only, refuse nothing', as: 'check', value: shadow },
  ] as const satisfies Fields;
}
