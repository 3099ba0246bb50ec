import type { Output } from '../data/call.ts';
import type { Needs } from '../data/hooks.ts';
import type { FieldData, Given } from './form.tsx';
import { OwnList } from './own-list.tsx';
import type { Column } from './table.tsx';
import { Amount } from './text.tsx';

export type Limit = NonNullable<Output<'get /api/v1/customer-billing/{bid}'>['billing']['limits']>[number];

const units = [
  ['requests', 'requests'],
  ['credits', 'credits'],
] as const;
const windows = ['second', 'minute', '5 minutes', 'hour', 'day', 'week', '30 days', 'month', 'year'];

const columns: readonly Column<Limit>[] = [
  { title: 'Name', text: 'name', isMain: true, below: windowOf },
  { title: 'At most', amount: 'limit' },
  { title: 'Of', text: ofWhat, isExtra: true },
  { title: 'Per', text: ({ per, timezone }) => (timezone ? `${per}, ${timezone}` : per), isExtra: true },
  { title: 'Refuses', text: ({ shadow }) => (shadow ? 'no, it watches' : 'yes'), isExtra: true },
];

/** What a limit counts, and over which window. */
export function windowOf(limit: Limit): string {
  return `${ofWhat(limit)} per ${limit.per}`;
}

function ofWhat({ unit, usageName }: Limit): string {
  return usageName ? `${unit} of ${usageName}` : unit;
}

type LimitsProps = {
  title: string;
  limits: readonly Limit[] | undefined;
  perSecond?: number | undefined;
  needs: Needs;
  /** The limits as they are by now. */
  read(): Promise<readonly Limit[] | undefined>;
  onChange(limits: Limit[] | null): Promise<unknown>;
};

/** Limits over windows, and the one per second. */
export function Limits({ limits, perSecond, ...list }: LimitsProps) {
  return (
    <OwnList
      {...list}
      one="limit"
      items={limits}
      columns={columns}
      fieldsOf={fieldsOf}
      itemIn={limitIn}
      empty="No limit over a longer window. Add one to bound what is used in a minute, a day or a month."
    >
      {perSecond !== undefined && (
        <p>
          At most <Amount of={perSecond} /> requests per second.
        </p>
      )}
    </OwnList>
  );
}

function fieldsOf({ name, limit, unit = 'requests', per = 'day', timezone, usageName, shadow }: Partial<Limit>) {
  // Others, such as 45 seconds, come from the api.
  const periods = [...new Set([...windows, per])].map((one) => [one, one] as const);
  return [
    { name: 'name', label: 'Name', required: true, value: name },
    { name: 'limit', label: 'At most', as: 'credits', required: true, value: limit },
    { name: 'unit', label: 'Of', options: units, value: unit },
    { name: 'per', label: 'Per', options: periods, value: per },
    { name: 'timezone', label: 'Time zone', value: timezone, hint: 'Of days, a week, month or year; empty: UTC.' },
    { name: 'usageName', label: 'Only the usage', value: usageName, hint: 'Empty: all of it.' },
    { name: 'shadow', label: 'Only watch, refuse nothing', as: 'check', value: shadow },
  ] as const satisfies readonly FieldData[];
}

function limitIn({ unit, limit, shadow, ...given }: Given<ReturnType<typeof fieldsOf>>): Limit {
  return { ...given, unit, limit: unit === 'requests' ? Number(limit) : limit, ...(shadow && { shadow }) };
}
