import { call, type Input } from '../../data/call.ts';
import type { FieldData, Given } from '../../parts/form.tsx';
import { OwnList } from '../../parts/own-list.tsx';
import { List, type Column } from '../../parts/table.tsx';
import type { Billing } from './credits.tsx';

type Alert = NonNullable<Billing['alerts']>[number];
type Change = Pick<Input<'patch /api/v1/customer-billing/{bid}'>, 'alerts'>;

const columns: readonly Column<Alert>[] = [
  { title: 'Alert', width: '30%', text: 'name', isMain: true, below: textOf },
  { title: 'Told', text: textOf, isExtra: true },
];
const watched = [
  ['percent', 'the percentage that is used'],
  ['available', 'the credits that are left'],
] as const;

/** What the record is watched for, and what it has crossed. */
export function Alerts({ billing, onChange }: { billing: Billing; onChange(what: Change): Promise<unknown> }) {
  const bid = billing.id;
  return (
    <>
      <OwnList
        title="Alerts"
        one="alert"
        items={billing.alerts}
        columns={columns}
        fieldsOf={fieldsOf}
        itemIn={alertIn}
        needs="billing:write"
        read={async () => (await call('get /api/v1/customer-billing/{bid}', { bid })).billing.alerts}
        onChange={(alerts) => onChange({ alerts })}
        empty="None of its own: those of the workspace hold. Add one to be told before the credits run out."
      />
      <h3>Crossed</h3>
      <List
        label="Crossed alerts"
        of="get /api/v1/customer-billing/{bid}/alerts"
        input={{ bid, limit: 100 }}
        columns={[
          { title: 'Alert', text: 'name', isMain: true },
          { title: 'Crossed', time: 'at' },
          { title: 'Used then', amount: 'usedCredits' },
        ]}
        empty="No alert was crossed yet. A webhook tells you when one is."
      />
    </>
  );
}

function textOf({ when: { usedPercent, available, limit } }: Alert) {
  if (available !== undefined) return `when ${available} credits are left, or fewer`;
  return `when ${usedPercent}% of the ${limit === undefined ? 'credits' : `limit ${limit}`} are used`;
}

function fieldsOf({ name, when: { usedPercent, available, limit } = {} }: Partial<Alert>) {
  const from = 'A percentage such as 80, or an amount of credits.';
  const whole = 'The name of a limit on credits, for a percentage of it. Empty: of all credits.';
  return [
    { name: 'name', label: 'Name', required: true, value: name },
    { name: 'kind', label: 'Watches', options: watched, value: available === undefined ? 'percent' : 'available' },
    { name: 'amount', label: 'From', as: 'credits', required: true, hint: from, value: available ?? usedPercent },
    { name: 'limit', label: 'Of the limit', hint: whole, value: limit },
  ] as const satisfies readonly FieldData[];
}

function alertIn({ name, kind, amount, limit }: Given<ReturnType<typeof fieldsOf>>): Alert {
  return {
    name,
    when: kind === 'percent' ? { usedPercent: Number(amount), ...(limit && { limit }) } : { available: amount },
  };
}
