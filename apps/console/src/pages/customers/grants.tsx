import { useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { MOST_ITEMS, readItems } from '../../data/hooks.ts';
import { Dialog, Field, Form } from '../../parts/form.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Amount, State, Time } from '../../parts/text.tsx';

export type Grant = Output<'get /api/v1/customer-billing/{bid}/grants'>['grants'][number];

const names = {
  ACTIVE: 'Active',
  PENDING: 'To come',
  USED_UP: 'Used up',
  EXPIRED: 'Expired',
  VOIDED: 'Voided',
} as const;

/** The grants that pages of them hold, at most `MOST_ITEMS`, oldest first. */
export function readGrants(
  read: (input: { limit: number; cursor?: string }) => Promise<{ grants: Grant[]; nextCursor?: string }>,
): Promise<Grant[]> {
  return readItems(async (input) => {
    const { grants, nextCursor } = await read(input);
    return { items: grants, nextCursor };
  });
}

type Props = { grants: readonly Grant[]; empty: string; change?: { bid: string; onChanged(): void } };

/** Where the credits came from, and what of each is left. */
export function Grants({ grants, empty, change }: Props) {
  const [voided, setVoided] = useState<Grant>();
  const columns: Column<Grant>[] = [
    {
      title: 'Grant',
      isMain: true,
      below: ({ state }) => names[state],
      cell: ({ name, scheduleId }) => <span title={name}>{name ?? (scheduleId ? 'of a schedule' : 'credits')}</span>,
    },
    { title: 'Left', cell: (one) => <Amount of={one.remainingCredits} />, isNumber: true },
    { title: 'Of', cell: (one) => <Amount of={one.credits} />, isNumber: true, isExtra: true },
    {
      title: 'State',
      width: '7rem',
      isExtra: true,
      cell: ({ state }) => <State kind={state === 'ACTIVE' ? 'good' : 'idle'}>{names[state]}</State>,
    },
    { title: 'Begins', cell: ({ beginsAt }) => <Time at={beginsAt} />, isExtra: true },
    { title: 'Ends', cell: ({ expiresAt }) => <Time at={expiresAt} />, isExtra: true },
  ];
  if (change) {
    columns.push({
      title: 'Void',
      width: '6rem',
      cell: (one) =>
        (one.state === 'ACTIVE' || one.state === 'PENDING') && (
          <button
            type="button"
            class="outline small"
            aria-label={`Void ${one.name ?? 'the grant'}`}
            onClick={() => setVoided(one)}
          >
            Void
          </button>
        ),
    });
  }
  return (
    <section>
      <h2>Grants</h2>
      <Table label="Grants" columns={columns} items={grants} keyOf={({ id }) => id} empty={empty} />
      {grants.length >= MOST_ITEMS && (
        <p class="muted">
          These are the oldest <Amount of={MOST_ITEMS} />. The amount at the top counts all.
        </p>
      )}
      {change && voided && (
        <Dialog title="Void the grant" onClose={() => setVoided(undefined)}>
          <Form
            submit="Void for good"
            onSubmit={async (value) => {
              await call('post /api/v1/customer-billing/{bid}/grant/{gid}/void', {
                bid: change.bid,
                gid: voided.id,
                reason: value('reason'),
              });
              setVoided(undefined);
              change.onChanged();
            }}
          >
            <p>
              What is left of it is gone at once: <Amount of={voided.remainingCredits} /> credits.
            </p>
            <Field label="Reason" name="reason" required />
          </Form>
        </Dialog>
      )}
    </section>
  );
}
