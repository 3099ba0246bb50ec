import { useRef, useState } from 'preact/hooks';
import { call, type Input, type Output } from '../../data/call.ts';
import { usePages } from '../../data/hooks.ts';
import { Choice, Dialog, Field, Form } from '../../parts/form.tsx';
import { PagedTable, Table, type Column } from '../../parts/table.tsx';
import { Amount, Time } from '../../parts/text.tsx';
import type { Billing } from './credits.tsx';

type Alert = NonNullable<Billing['alerts']>[number];
type Crossing = Output<'get /api/v1/customer-billing/{bid}/alerts'>['alerts'][number];
type Change = Pick<Input<'patch /api/v1/customer-billing/{bid}'>, 'alerts'>;
type Alter = (alerts: readonly Alert[]) => Alert[];
type Props = { billing: Billing; mayWrite: boolean; onChange(what: Change): Promise<void> };

const crossingColumns: readonly Column<Crossing>[] = [
  { title: 'Alert', cell: ({ name }) => <span title={name}>{name}</span>, isMain: true },
  { title: 'Crossed', cell: ({ at }) => <Time at={at} /> },
  { title: 'Used then', cell: ({ usedCredits }) => <Amount of={usedCredits} />, isNumber: true },
];

/** What the record is watched for, and what it has crossed. */
export function Alerts({ billing, mayWrite, onChange }: Props) {
  const [isMaking, setMaking] = useState(false);
  const bid = billing.id;
  const alerts = billing.alerts ?? [];
  const crossings = usePages(
    async (cursor, signal) => {
      const page = await call(
        'get /api/v1/customer-billing/{bid}/alerts',
        { bid, limit: 100, ...(cursor && { cursor }) },
        signal,
      );
      return { items: page.alerts, nextCursor: page.nextCursor };
    },
    [bid],
  );
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
    {
      title: 'Alert',
      width: '30%',
      cell: ({ name }) => <span title={name}>{name}</span>,
      isMain: true,
      below: ({ when }) => textOf(when),
    },
    { title: 'Told', cell: ({ when }) => textOf(when), isExtra: true },
  ];
  if (mayWrite) {
    columns.push({
      title: 'Remove',
      width: '7.5rem',
      cell: ({ name }) => (
        <Form submit="Remove" label={`Remove ${name}`} isSmall onSubmit={() => remove(name)}>
          {null}
        </Form>
      ),
    });
  }
  return (
    <section>
      <header class="page">
        <h2>Alerts</h2>
        {mayWrite && (
          <button type="button" class="outline" onClick={() => setMaking(true)}>
            New alert
          </button>
        )}
      </header>
      <Table
        label="Alerts"
        columns={columns}
        items={alerts}
        keyOf={({ name }) => name}
        empty="None of its own: those of the workspace hold. Add one to be told before the credits run out."
      />
      <h3>Crossed</h3>
      <PagedTable
        label="Crossed alerts"
        columns={crossingColumns}
        pages={crossings}
        keyOf={({ id }) => id}
        empty="No alert was crossed yet. A webhook tells you when one is."
      />
      {isMaking && (
        <NewAlert
          onClose={() => setMaking(false)}
          onAdd={(one) => change((all) => [...all, one]).then(() => setMaking(false))}
        />
      )}
    </section>
  );
}

function textOf({ usedPercent, available, limit }: Alert['when']) {
  if (available !== undefined) return `when ${available} credits are left, or fewer`;
  return limit === undefined
    ? `when ${usedPercent}% of the credits are used`
    : `when ${usedPercent}% of the limit ${limit} are used`;
}

function NewAlert({ onClose, onAdd }: { onClose(): void; onAdd(alert: Alert): Promise<void> }) {
  return (
    <Dialog title="New alert" onClose={onClose}>
      <Form
        submit="Add alert"
        onSubmit={(value) => {
          const when =
            value('kind') === 'percent' ? { usedPercent: Number(value('amount')) } : { available: value('amount') };
          return onAdd({ name: value('name'), when });
        }}
      >
        <Field label="Name" name="name" required />
        <Choice
          label="Watches"
          name="kind"
          options={[
            ['percent', 'the percentage that is used'],
            ['available', 'the credits that are left'],
          ]}
        />
        <Field
          label="From"
          name="amount"
          required
          inputMode="decimal"
          hint="A percentage such as 80, or an amount of credits."
        />
      </Form>
    </Dialog>
  );
}
