import { useState } from 'preact/hooks';
import type { Output } from '../data/call.ts';
import { AskDialog, Opens } from './dialog.tsx';
import { Fields, givenIn, type FieldData } from './form.tsx';
import { Section } from './page.tsx';
import { Table, type Column } from './table.tsx';
import { Amount } from './text.tsx';

export type Limit = NonNullable<Output<'get /api/v1/customer-billing/{bid}'>['billing']['limits']>[number];

const MOST = 4;
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
  /** The heading of the dialog that changes them. */
  dialog: string;
  limits: readonly Limit[] | undefined;
  perSecond?: number | undefined;
  /** Without it they can't be changed. */
  onChange?: ((limits: Limit[] | null) => Promise<unknown>) | false;
};

/** Limits over windows, and the one per second. */
export function Limits({ title, dialog, limits = [], perSecond, onChange }: LimitsProps) {
  return (
    <Section
      title={title}
      action={
        onChange && (
          <Opens text="Change limits">{<ChangeLimits title={dialog} limits={limits} onChange={onChange} />}</Opens>
        )
      }
    >
      {perSecond !== undefined && (
        <p>
          At most <Amount of={perSecond} /> requests per second.
        </p>
      )}
      <Table
        label="Limits"
        columns={columns}
        items={limits}
        keyOf={({ name }) => name}
        empty="No limit over a longer window. Add one to bound what is used in a minute, a day or a month."
      />
    </Section>
  );
}

type ChangeProps = { title: string; limits: readonly Limit[]; onChange(limits: Limit[] | null): Promise<unknown> };

function ChangeLimits({ title, limits, onChange }: ChangeProps) {
  const [rows, setRows] = useState(() => limits.map((limit, i) => ({ limit: limit as Partial<Limit>, row: i })));
  const add = () => setRows([...rows, { limit: {}, row: (rows.at(-1)?.row ?? -1) + 1 }]);
  const save = (_: unknown, form: FormData) => {
    const all = rows.map(({ limit, row }) => limitIn(givenIn(fieldsOf(limit), form, ` ${row}`)));
    return onChange(all.length > 0 ? all : null);
  };
  return (
    <AskDialog title={title} submit="Save limits" onSubmit={save}>
      {rows.map(({ limit, row }, i) => (
        <fieldset key={row} class="limit">
          <legend>Limit {i + 1}</legend>
          <Fields of={fieldsOf(limit)} row={` ${row}`} />
          <button
            type="button"
            class="outline secondary"
            onClick={() => setRows(rows.filter((one) => one.row !== row))}
          >
            Remove limit {i + 1}
          </button>
        </fieldset>
      ))}
      {rows.length === 0 && <p class="muted">No limit.</p>}
      {rows.length < MOST && (
        <p>
          <button type="button" class="outline" onClick={add}>
            Add a limit
          </button>
        </p>
      )}
    </AskDialog>
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

type GivenLimit = ReturnType<typeof givenIn<ReturnType<typeof fieldsOf>>>;

function limitIn({ unit, limit, shadow, ...given }: GivenLimit): Limit {
  return { ...given, unit, limit: unit === 'requests' ? Number(limit) : limit, ...(shadow && { shadow }) };
}
