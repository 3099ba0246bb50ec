import { call } from '../../data/call.ts';
import { MOST_ITEMS, type ItemOf } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Section } from '../../parts/page.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Amount, State } from '../../parts/text.tsx';

export type Grant = ItemOf<'get /api/v1/customer-billing/{bid}/grants'>;

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

/** Where the credits came from, and what of each is left; with the id of the record they can be voided. */
export function Grants({ grants, empty, bid }: { grants: readonly Grant[]; empty: string; bid?: string | undefined }) {
  const isOpen = ({ state }: Grant) => state === 'ACTIVE' || state === 'PENDING';
  const voiding: readonly Column<Grant>[] = bid
    ? [{ title: 'Void', width: '6rem', cell: (one) => isOpen(one) && <Void grant={one} bid={bid} /> }]
    : [];
  return (
    <Section title="Grants">
      <Table label="Grants" columns={[...columns, ...voiding]} items={grants} empty={empty} />
      {grants.length >= MOST_ITEMS && (
        <p class="muted">
          These are the oldest <Amount of={MOST_ITEMS} />. The amount at the top counts all.
        </p>
      )}
    </Section>
  );
}

function Void({ grant: { id: gid, name = 'the grant', remainingCredits }, bid }: { grant: Grant; bid: string }) {
  return (
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
}
