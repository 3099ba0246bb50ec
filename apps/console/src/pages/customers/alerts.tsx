import type { Fields } from '../../parts/form.tsx';
import type { Kind } from '../../parts/own-list.tsx';
import type { Billing } from './billing-state.ts';

type Alert = NonNullable<Billing['alerts']>[number];

const watched = { percent: 'the percentage that is used', available: 'the credits that are left' };

/** What a record is watched for. */
export const alertKind: Kind<Alert, ReturnType<typeof fieldsOf>> = {
  one: 'alert',
  columns: [
    { title: 'Alert', width: '30%', text: 'name' },
    { title: 'Told', text: textOf },
  ],
  fieldsOf,
  itemIn({ name, kind, amount, limit, topUp }) {
    if (kind === 'available') return { name, when: { available: amount }, ...(topUp && { topUp }) };
    return { name, when: { usedPercent: Number(amount), ...(limit && { limit }) } };
  },
  empty: 'None of its own: those of the workspace hold. Add one to be told before the credits run out.',
};

function textOf({ when: { usedPercent, available, limit }, topUp }: Alert) {
  const buys = topUp === undefined ? '' : `; ${topUp} are to be bought then`;
  if (available !== undefined) return `when ${available} credits are left, or fewer${buys}`;
  return `when ${usedPercent}% of the ${limit === undefined ? 'credits' : `limit ${limit}`} are used`;
}

function fieldsOf({ name, when: { usedPercent, available, limit } = {}, topUp }: Partial<Alert>) {
  const from = 'A percentage such as 80, or an amount of credits.';
  const buys = 'What webhooks are told to buy, of credits left.';
  const told = ['amount', 'usedPercent', 'available'];
  const whole = 'The name of a limit on credits, for a percentage of it. Empty: of all credits.';
  return [
    { name: 'name', label: 'Name', required: true, value: name },
    { name: 'kind', label: 'Watches', options: watched, value: available === undefined ? 'percent' : 'available' },
    { name: 'amount', label: 'From', as: 'credits', required: true, hint: from, value: available ?? usedPercent, told },
    { name: 'limit', label: 'Of the limit', hint: whole, value: limit },
    { name: 'topUp', label: 'To buy', as: 'credits', hint: buys, value: topUp },
  ] as const satisfies Fields;
}
