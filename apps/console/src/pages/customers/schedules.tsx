import { call } from '../../data/call.ts';
import { usePages, type ItemOf } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { ListSection } from '../../parts/page.tsx';
import type { Column } from '../../parts/table.tsx';
import { Amount } from '../../parts/text.tsx';

type Schedule = ItemOf<'get /api/v1/customer-billing/{bid}/grant-schedules'>;

const periods = (['day', 'week', 'month', 'year'] as const).map((one) => [one, one] as const);
const columns: readonly Column<Schedule>[] = [
  { title: 'Schedule', isMain: true, below: periodOf, text: ({ name }) => name ?? 'credits' },
  { title: 'Credits', amount: 'credits' },
  { title: 'Every', text: periodOf, isExtra: true },
  {
    title: 'Carries over',
    cell: ({ rollover }) => (rollover ? <Amount of={rollover.maxCredits} /> : 'nothing'),
    isNumber: true,
    isExtra: true,
  },
];

/** Credits that come by themselves. */
export function Schedules({ bid, mayWrite }: { bid: string; mayWrite: boolean }) {
  const deleting: readonly Column<Schedule>[] = mayWrite
    ? [{ title: 'Delete', width: '6.5rem', cell: (one) => <Delete of={one} bid={bid} /> }]
    : [];
  return (
    <ListSection
      title="Grant schedules"
      action={mayWrite && <NewSchedule bid={bid} />}
      columns={[...columns, ...deleting]}
      pages={usePages('get /api/v1/customer-billing/{bid}/grant-schedules', { bid, limit: 50 })}
      empty="No schedule. One grants credits each day, week, month or year."
    />
  );
}

function periodOf({ every, timezone }: Schedule): string {
  return `${every}, ${timezone}`;
}

function Delete({ of: { id: sid, name = sid }, bid }: { of: Schedule; bid: string }) {
  return (
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
}

function NewSchedule({ bid }: { bid: string }) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const carried = 'Of what is left of a period. Empty: nothing.';
  return (
    <Ask
      title="New schedule"
      submit="Create schedule"
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
}
