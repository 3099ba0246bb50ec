import { call } from '../../data/call.ts';
import { MOST_ITEMS, type ItemOf } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Section } from '../../parts/page.tsx';
import { List, Table, type Column } from '../../parts/table.tsx';
import { Amount, State } from '../../parts/text.tsx';

export type Grant = ItemOf<'get /api/v1/customer-billing/{bid}/grants'>;
type Schedule = ItemOf<'get /api/v1/customer-billing/{bid}/grant-schedules'>;

const needs = 'billing:write';
const names = {
  ACTIVE: 'Active',
  PENDING: 'To come',
  USED_UP: 'Used up',
  EXPIRED: 'Expired',
  VOIDED: 'Voided',
} as const;
const columns: readonly Column<Grant>[] = [
  {
    title: 'Grant',
    isMain: true,
    below: ({ state }) => names[state],
    text: ({ name, scheduleId }) => name ?? (scheduleId ? 'of a schedule' : 'credits'),
  },
  { title: 'Left', amount: 'remainingCredits' },
  { title: 'Of', amount: 'credits', isExtra: true },
  {
    title: 'State',
    width: '7rem',
    isExtra: true,
    cell: ({ state }) => <State kind={state === 'ACTIVE' ? 'good' : 'idle'}>{names[state]}</State>,
  },
  { title: 'Begins', time: 'beginsAt', isExtra: true },
  { title: 'Ends', time: 'expiresAt', isExtra: true },
];

/** Where the credits came from, and what of each is left; in the console each of a record can be voided. */
export function Grants({ grants, empty, bid = '' }: { grants: readonly Grant[]; empty: string; bid?: string }) {
  const voids = ({ id: gid, name = 'the grant', state, remainingCredits }: Grant) =>
    (state === 'ACTIVE' || state === 'PENDING') && (
      <Ask
        text="Void"
        look="outline small"
        label={`Void ${name}`}
        title="Void the grant"
        submit="Void for good"
        fields={[{ name: 'reason', label: 'Reason', required: true }]}
        onSubmit={(given) => call('post /api/v1/customer-billing/{bid}/grant/{gid}/void', { bid, gid, ...given })}
      >
        <p>
          What is left of it is gone at once: <Amount of={remainingCredits} /> credits.
        </p>
      </Ask>
    );
  return (
    <Section title="Grants">
      <Table
        label="Grants"
        columns={[...columns, { title: 'Void', width: '6rem', needs, cell: voids }]}
        items={grants}
        empty={empty}
      />
      {grants.length >= MOST_ITEMS && (
        <p class="muted">
          These are the oldest <Amount of={MOST_ITEMS} />. The amount at the top counts all.
        </p>
      )}
    </Section>
  );
}

const periods = (['day', 'week', 'month', 'year'] as const).map((one) => [one, one] as const);

/** Credits that come by themselves. */
export function Schedules({ bid }: { bid: string }) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const carried = 'Of what is left of a period. Empty: nothing.';
  const make = (
    <Ask
      title="New schedule"
      submit="Create schedule"
      needs={needs}
      fields={[
        { name: 'credits', label: 'Credits', as: 'credits', required: true },
        { name: 'every', label: 'Every', options: periods, value: 'month' },
        { name: 'timezone', label: 'Time zone', required: true, value: zone },
        { name: 'name', label: 'Name' },
        { name: 'maxCredits', label: 'Carries over at most', as: 'credits', hint: carried },
      ]}
      onSubmit={({ maxCredits, ...given }) => {
        const rollover = maxCredits === undefined ? {} : { rollover: { maxCredits } };
        return call('post /api/v1/customer-billing/{bid}/grant-schedule', { bid, ...given, ...rollover });
      }}
    />
  );
  const periodOf = ({ every, timezone }: Schedule) => `${every}, ${timezone}`;
  const deletes = ({ id: sid, name = sid }: Schedule) => (
    <Ask
      text="Delete"
      look="outline small"
      label={`Delete the schedule ${name}`}
      title="Delete the schedule"
      submit="Delete for good"
      onSubmit={() => call('delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}', { bid, sid })}
    >
      <p>No further period begins. What it has granted stays.</p>
    </Ask>
  );
  return (
    <List
      title="Grant schedules"
      action={make}
      of="get /api/v1/customer-billing/{bid}/grant-schedules"
      input={{ bid, limit: 50 }}
      columns={[
        { title: 'Schedule', isMain: true, below: periodOf, text: ({ name }) => name ?? 'credits' },
        { title: 'Credits', amount: 'credits' },
        { title: 'Every', text: periodOf, isExtra: true },
        { title: 'Carries over', amount: ({ rollover }) => rollover?.maxCredits ?? '0', isExtra: true },
        { title: 'Delete', width: '6.5rem', needs, cell: deletes },
      ]}
      empty="No schedule. One grants credits each day, week, month or year."
    />
  );
}
