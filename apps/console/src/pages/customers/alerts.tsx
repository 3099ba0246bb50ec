import { useRef } from 'preact/hooks';
import { call, type Input } from '../../data/call.ts';
import { usePages, type ItemOf } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Section } from '../../parts/page.tsx';
import { PagedTable, Table, type Column } from '../../parts/table.tsx';
import type { Billing } from './credits.tsx';

type Alert = NonNullable<Billing['alerts']>[number];
type Change = Pick<Input<'patch /api/v1/customer-billing/{bid}'>, 'alerts'>;
type Alter = (alerts: readonly Alert[]) => Alert[];
type Props = { billing: Billing; mayWrite: boolean; onChange(what: Change): Promise<unknown> };

const crossingColumns: readonly Column<ItemOf<'get /api/v1/customer-billing/{bid}/alerts'>>[] = [
  { title: 'Alert', text: 'name', isMain: true },
  { title: 'Crossed', time: 'at' },
  { title: 'Used then', amount: 'usedCredits' },
];
const watched = [
  ['percent', 'the percentage that is used'],
  ['available', 'the credits that are left'],
] as const;

/** What the record is watched for, and what it has crossed. */
export function Alerts({ billing, mayWrite, onChange }: Props) {
  const bid = billing.id;
  // They are written as a whole: one change after the other, each of what the record has by then.
  const before = useRef(Promise.resolve());
  const change = (alter: Alter) => {
    const changing = before.current.then(async () => {
      const { billing: now } = await call('get /api/v1/customer-billing/{bid}', { bid });
      const altered = alter(now.alerts ?? []);
      await onChange({ alerts: altered.length > 0 ? altered : null });
    });
    before.current = changing.catch(() => {});
    return changing;
  };
  const remove = (name: string) => change((all) => all.filter((one) => one.name !== name));
  const columns: Column<Alert>[] = [
    { title: 'Alert', width: '30%', text: 'name', isMain: true, below: textOf },
    { title: 'Told', text: textOf, isExtra: true },
  ];
  if (mayWrite) {
    columns.push({
      title: 'Remove',
      width: '7.5rem',
      cell: ({ name }) => <Form submit="Remove" label={`Remove ${name}`} look="small" onSubmit={() => remove(name)} />,
    });
  }
  return (
    <Section title="Alerts" action={mayWrite && <NewAlert onAdd={(one) => change((all) => [...all, one])} />}>
      <Table
        label="Alerts"
        columns={columns}
        items={billing.alerts ?? []}
        keyOf={({ name }) => name}
        empty="None of its own: those of the workspace hold. Add one to be told before the credits run out."
      />
      <h3>Crossed</h3>
      <PagedTable
        label="Crossed alerts"
        columns={crossingColumns}
        pages={usePages('get /api/v1/customer-billing/{bid}/alerts', { bid, limit: 100 })}
        empty="No alert was crossed yet. A webhook tells you when one is."
      />
    </Section>
  );
}

function textOf({ when: { usedPercent, available, limit } }: Alert) {
  if (available !== undefined) return `when ${available} credits are left, or fewer`;
  return limit === undefined
    ? `when ${usedPercent}% of the credits are used`
    : `when ${usedPercent}% of the limit ${limit} are used`;
}

function NewAlert({ onAdd }: { onAdd(alert: Alert): Promise<void> }) {
  const from = 'A percentage such as 80, or an amount of credits.';
  return (
    <Ask
      title="New alert"
      submit="Add alert"
      fields={[
        { name: 'name', label: 'Name', required: true },
        { name: 'kind', label: 'Watches', options: watched },
        { name: 'amount', label: 'From', as: 'credits', required: true, hint: from },
      ]}
      onSubmit={({ name, kind, amount }) =>
        onAdd({ name, when: kind === 'percent' ? { usedPercent: Number(amount) } : { available: amount } })
      }
    />
  );
}
