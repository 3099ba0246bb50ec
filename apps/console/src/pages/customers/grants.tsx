import { call } from '../../data/call.ts';
import { readItems, useRead, type ItemOf } from '../../data/hooks.ts';
import { newestFirst, viewerZone } from '../../data/time.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Section } from '../../parts/page.tsx';
import { List, Listed, Table, type Column } from '../../parts/table.tsx';
import { grouped, State, wordOf, type Standing } from '../../parts/text.tsx';

export type Grant = ItemOf<'get /api/v1/customer-billing/{bid}/grants'>;
type Schedule = ItemOf<'get /api/v1/customer-billing/{bid}/grant-schedules'>;

const needs = 'billing:write';
const thens = { charge: 'charged', release: 'released' };

type Entry = {
  id: string;
  at: string | number;
  what: string;
  credits: string;
  left?: string;
  state?: Standing;
  endsAt?: number | undefined;
  grant?: Grant;
};

function entryOf(grant: Grant): Entry {
  const { id, beginsAt, name, scheduleId, credits, remainingCredits: left, state, expiresAt: endsAt } = grant;
  const end = endsAt === undefined ? 'Credits that never end' : 'Credits';
  const what = name ?? (scheduleId ? 'Credits of a schedule' : end);
  const standing = [state === 'ACTIVE' ? 'good' : 'idle', state === 'PENDING' ? 'To come' : wordOf(state)] as const;
  return { id, at: beginsAt, what, credits, left, state: standing, endsAt, grant };
}

const columns: readonly Column<Entry>[] = [
  { title: 'When', width: '13.5rem', time: 'at' },
  { title: 'What', text: 'what' },
  { title: 'Credits', width: '9rem', amount: 'credits' },
  { title: 'Left', width: '9rem', amount: 'left' },
  { title: 'State', width: '7rem', cell: ({ state }) => state && <State of={state} /> },
  { title: 'Ends', width: '13.5rem', time: 'endsAt' },
];

/** The credits of a customer by where they came from, and what of each is left; in the portal that of its customer. */
export function Grants({ of: grants, empty }: { of: readonly Grant[]; empty: string }) {
  return (
    <Section title="Credits">
      <Table label="Credits" columns={columns} items={grants.map(entryOf)} empty={empty} />
    </Section>
  );
}

/** Everything that gave credits or holds some: grants, refills and open holds, the newest first. */
export function Ledger({ bid, grants }: { bid: string; grants: readonly Grant[] }) {
  const readAll = async () => {
    const [refills, holds] = await Promise.all([
      readItems('get /api/v1/customer-billing/{bid}/ledger', { bid, limit: 200 }),
      readItems('get /api/v1/customer-billing/{bid}/holds', { bid, limit: 200 }),
    ]);
    const all = [
      ...grants.map(entryOf),
      ...refills.map(({ id, createdAt: at, amount: credits }): Entry => ({ id, at, what: 'Refill', credits })),
      ...holds.map(({ id, createdAt: at, usageName, credits, expiresAt: endsAt, onExpiry }): Entry => {
        const what = `Held${usageName ? ` for ${usageName}` : ''}, then ${thens[onExpiry]}`;
        return { id, at, what, credits, state: ['idle', 'Held'], endsAt };
      }),
    ];
    return newestFirst(all, ({ at }) => new Date(at).toISOString());
  };
  const read = useRead(readAll, JSON.stringify([bid, grants.map(({ id, state }) => [id, state])]));
  const voids = ({ grant }: Entry) =>
    grant &&
    (grant.state === 'ACTIVE' || grant.state === 'PENDING') && (
      <Ask
        does="Void"
        one="grant"
        row={grant.name ?? 'the grant'}
        fields={[{ name: 'reason', label: 'Reason', required: true }]}
        onSubmit={(given) =>
          call('post /api/v1/customer-billing/{bid}/grant/{gid}/void', { bid, gid: grant.id, ...given })
        }
        says={`What is left of it is gone at once: ${grouped(grant.remainingCredits)} credits.`}
      />
    );
  return (
    <Listed
      title="Ledger"
      of={read}
      items={(entries) => entries}
      columns={[...columns, { title: 'Void', width: '6rem', needs, cell: voids }]}
      empty="No credits yet. Add some, once or by a schedule."
    />
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
        { title: 'Every', text: ({ every, timezone }) => `${every}, ${timezone}` },
        { title: 'Carries over', amount: ({ rollover }) => rollover?.maxCredits ?? '0' },
        { title: 'Delete', width: '6.5rem', needs, cell: deletes },
      ]}
      empty="No schedule. One grants credits each day, week, month or year."
    />
  );
}
