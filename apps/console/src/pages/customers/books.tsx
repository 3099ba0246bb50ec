import { useState } from 'preact/hooks';
import { addressOf, call, type Output } from '../../data/call.ts';
import { useAnswer, useAsked } from '../../data/hooks.ts';
import { newestFirst } from '../../data/time.ts';
import { Field, Form, SaveButton } from '../../parts/form.tsx';
import { Section } from '../../parts/page.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Amount, Facts, Loaded, State, wordOf } from '../../parts/text.tsx';

type Movement = Output<'get /api/v1/customer-billing/{bid}/statement'>['statement']['movements'][number];
type Proof = Output<'get /api/v1/customer-billing/{bid}/reconciliation'>['reconciliation'];

const proofs = {
  EXACT: ['good', 'Exact: the books have all that was used, and no more'],
  ON_ITS_WAY: ['idle', 'Events are still on their way to the books: prove again'],
  MISSING: ['bad', 'The books lack some of what was used'],
  TOO_MUCH: ['bad', 'The books have more than was used'],
} as const;
const kinds: Partial<Record<Movement['kind'], string>> = { adjustment: 'Correction', loss: 'Lost' };
const movementColumns: readonly Column<Movement>[] = [
  { title: 'Day', width: '9rem', text: 'day' },
  { title: 'Movement', text: nameOf },
  { title: 'Why', text: 'reason' },
  { title: 'Change (of what remains)', amount: changeBy },
];

function nameOf({ kind, name, month }: Movement): string {
  return [kinds[kind] ?? wordOf(kind), name, month && `of ${month}`].filter(Boolean).join(': ');
}

// A statement adds to what is used; what remains becomes less by it.
function changeBy({ balance, amount }: Movement): string {
  if (balance === 'total' || Number(amount) === 0) return amount;
  return amount.startsWith('-') ? amount.slice(1) : `-${amount}`;
}

/** Whether the customer's balance and its events say the same. */
export function ProofOfBooks({ bid }: { bid: string }) {
  const [proof, setProof] = useState<Proof>();
  const prove = async () =>
    setProof((await call('get /api/v1/customer-billing/{bid}/reconciliation', { bid })).reconciliation);
  return (
    <Section title="Proof" action={<Form submit="Prove the books" look="minor" onSubmit={prove} />}>
      <div role="status">
        {proof ? (
          <Facts
            of={[
              ['State', <State of={proofs[proof.status]} />],
              ['Used, by the balance', <Amount of={proof.usedCredits} />],
              ['Used, by the events', <Amount of={proof.bookedCredits} />],
              ['Billed', <Amount of={proof.billedCredits} />],
              ['Difference', <Amount of={proof.difference} />],
            ]}
          />
        ) : (
          <p class="muted">Compares the balance with every event, now.</p>
        )}
      </div>
    </Section>
  );
}

/** What a month of a customer began with, what moved, and what it ended with; in the portal that of its customer. */
export function Statement({ bid }: { bid?: string }) {
  const [{ month = new Date().toISOString().slice(0, 7) }, ask] = useAsked();
  const question = bid
    ? (['get /api/v1/customer-billing/{bid}/statement', { bid, month }] as const)
    : (['get /api/v1/portal/statement', { month }] as const);
  const path = `${addressOf(question[0], question[1])}&format=csv`;
  const file = `statement-${month}-${bid ?? 'portal'}.csv`;
  return (
    <Section title="Statement" action={<SaveButton path={path} file={file} text="Download the statement" />}>
      <Field label="Month" name="month" as="month" value={month} onText={(text) => text && ask({ month: text })} />
      <Loaded of={useAnswer(question[0], question[1])}>
        {({ statement }) => (
          <>
            <Facts
              of={[
                ['Remaining at the beginning', <Amount of={statement.opening.remaining} />],
                ['Remaining at the end', <Amount of={statement.closing.remaining} />],
                ['Days of', statement.timezone],
                ['Month', statement.closed ? 'closed: it never changes' : 'open'],
              ]}
            />
            <Table
              label="Movements"
              columns={movementColumns}
              items={newestFirst(statement.movements, ({ day }) => day)}
              empty="Nothing moved in this month. Choose another one above."
            />
          </>
        )}
      </Loaded>
    </Section>
  );
}
