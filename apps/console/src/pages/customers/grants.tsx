import { call } from '../../data/call.ts';
import type { ItemOf } from '../../data/hooks.ts';
import { viewerZone } from '../../data/time.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Section } from '../../parts/page.tsx';
import { List, Table, type Column } from '../../parts/table.tsx';
import { grouped } from '../../parts/text.tsx';

export type Grant = ItemOf<'get /api/v1/customer-billing/{bid}/grants'>;
type Schedule = ItemOf<'get /api/v1/customer-billing/{bid}/grant-schedules'>;

const needs = 'billing:write';
const states = {
  ACTIVE: ['good', 'Active'],
  PENDING: ['idle', 'To come'],
  USED_UP: ['idle', 'Used up'],
  EXPIRED: ['idle', 'Expired'],
  VOIDED: ['idle', 'Voided'],
} as const;
const columns: readonly Column<Grant>[] = [
  { title: 'Grant', text: ({ name, scheduleId }) => name ?? (scheduleId ? 'of a schedule' : 'credits') },
  { title: 'Left', amount: 'remainingCredits' },
  { title: 'Of', amount: 'credits' },
  { title: 'State', width: '7rem', state: ({ state }) => states[state] },
  { title: 'Begins', time: 'beginsAt' },
  { title: 'Ends', time: 'expiresAt' },
];

/** Where the credits came from, and what of each is left; in the console each of a record can be voided. */
export function Grants({ of: grants, empty, bid = '' }: { of: readonly Grant[]; empty: string; bid?: string }) {
  const voids = ({ id: gid, name = 'the grant', state, remainingCredits }: Grant) =>
    (state === 'ACTIVE' || state === 'PENDING') && (
      <Ask
        does="Void"
        one="grant"
        row={name}
        fields={[{ name: 'reason', label: 'Reason', required: true }]}
        onSubmit={(given) => call('post /api/v1/customer-billing/{bid}/grant/{gid}/void', { bid, gid, ...given })}
        says={`What is left of it is gone at once: ${grouped(remainingCredits)} credits.`}
      />
    );
  return (
    <Section title="Grants">
      <Table
        label="Grants"
        columns={[...columns, { title: 'Void', width: '6rem', needs, cell: voids }]}
        items={grants}
        empty={empty}
      />
    </Section>
  );
}

/** Credits that come by themselves. */
export function Schedules({ bid }: { bid: string }) {
  const carried = 'Of what is left of a period. Empty: nothing.';
  const make = (
    <Ask
      does="New"
      one="schedule"
      look="outline"
      needs={needs}
      fields={[
        { name: 'credits', label: 'Credits', as: 'credits', required: true },
        { name: 'every', label: 'Every', options: ['day', 'week', 'month', 'year'], value: 'month' },
        { name: 'timezone', label: 'Time zone', required: true, value: viewerZone() },
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
      does="Delete"
      one="schedule"
      row={`the schedule ${name}`}
      onSubmit={() => call('delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}', { bid, sid })}
      says="No further period begins. What it has granted stays."
    />
  );
  return (
    <List
      title="Grant schedules"
      action={make}
      of="get /api/v1/customer-billing/{bid}/grant-schedules"
      input={{ bid, limit: 50 }}
      columns={[
        { title: 'Schedule', text: ({ name }) => name ?? 'credits' },
        { title: 'Credits', amount: 'credits' },
        { title: 'Every', text: periodOf },
        { title: 'Carries over', amount: ({ rollover }) => rollover?.maxCredits ?? '0' },
        { title: 'Delete', width: '6.5rem', needs, cell: deletes },
      ]}
      empty="No schedule. One grants credits each day, week, month or year."
    />
  );
}
