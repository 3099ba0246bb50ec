import { useState } from 'preact/hooks';
import type { Output } from '../data/call.ts';
import { Check, Choice, Field, Form } from './form.tsx';
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
  { title: 'Name', cell: ({ name }) => <span title={name}>{name}</span>, isMain: true, below: windowOf },
  { title: 'At most', cell: ({ limit }) => <Amount of={limit} />, isNumber: true },
  { title: 'Of', cell: ofWhat, isExtra: true },
  { title: 'Per', cell: ({ per, timezone }) => (timezone ? `${per}, ${timezone}` : per), isExtra: true },
  { title: 'Refuses', cell: ({ shadow }) => (shadow ? 'no, it watches' : 'yes'), isExtra: true },
];

/** What a limit counts, and over which window. */
export function windowOf(limit: Limit): string {
  return `${ofWhat(limit)} per ${limit.per}`;
}

// Others, such as 45 seconds, come from the api.
function windowsWith(per = 'day') {
  return [...new Set([...windows, per])].map((one) => [one, one] as const);
}

function ofWhat({ unit, usageName }: Limit): string {
  return usageName ? `${unit} of ${usageName}` : unit;
}

/** Limits over windows, and the one per second. */
export function LimitsTable({ limits, perSecond }: { limits: readonly Limit[]; perSecond?: number | undefined }) {
  return (
    <>
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
    </>
  );
}

/** Changes a list of limits: up to 4. */
export function LimitsForm({
  limits,
  onSubmit,
}: {
  limits: readonly Limit[];
  onSubmit(limits: Limit[]): Promise<unknown>;
}) {
  const [rows, setRows] = useState(() => limits.map((limit, i) => ({ limit: limit as Partial<Limit>, row: i })));
  const add = () => setRows([...rows, { limit: {}, row: (rows.at(-1)?.row ?? -1) + 1 }]);
  const read = (value: (name: string) => string, form: FormData): Limit[] =>
    rows.map(({ row }) => {
      const unit = value(`unit ${row}`) as Limit['unit'];
      const amount = value(`limit ${row}`);
      return {
        name: value(`name ${row}`),
        unit,
        limit: unit === 'requests' ? Number(amount) : amount,
        per: value(`per ${row}`),
        ...(value(`timezone ${row}`) && { timezone: value(`timezone ${row}`) }),
        ...(value(`usageName ${row}`) && { usageName: value(`usageName ${row}`) }),
        ...(form.has(`shadow ${row}`) && { shadow: true }),
      };
    });
  return (
    <Form submit="Save limits" onSubmit={(value, form) => onSubmit(read(value, form))}>
      {rows.map(({ limit, row }, i) => (
        <fieldset key={row} class="limit">
          <legend>Limit {i + 1}</legend>
          <Field label="Name" name={`name ${row}`} required value={limit.name ?? ''} />
          <Field label="At most" name={`limit ${row}`} required inputMode="decimal" value={limit.limit ?? ''} />
          <Choice label="Of" name={`unit ${row}`} options={units} value={limit.unit ?? 'requests'} />
          <Choice label="Per" name={`per ${row}`} options={windowsWith(limit.per)} value={limit.per ?? 'day'} />
          <Field
            label="Time zone"
            name={`timezone ${row}`}
            value={limit.timezone ?? ''}
            hint="Of days, a week, month or year; empty: UTC."
          />
          <Field
            label="Only the usage"
            name={`usageName ${row}`}
            value={limit.usageName ?? ''}
            hint="Empty: all of it."
          />
          <Check label="Only watch, refuse nothing" name={`shadow ${row}`} checked={limit.shadow ?? false} />
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
    </Form>
  );
}
