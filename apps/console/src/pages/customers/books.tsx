import { useState } from 'preact/hooks';
import { microsIn } from '../../data/amounts.ts';
import { call, type Output } from '../../data/call.ts';
import { usePages, useRead } from '../../data/hooks.ts';
import { newestFirst } from '../../data/periods.ts';
import { Field, Form } from '../../parts/form.tsx';
import { SaveButton } from '../../parts/save.tsx';
import { PagedTable, Table, type Column } from '../../parts/table.tsx';
import { Amount, Facts, ProblemNote, State, Time } from '../../parts/text.tsx';

type Refill = Output<'get /api/v1/customer-billing/{bid}/ledger'>['ledger'][number];
type StatementOf = Output<'get /api/v1/customer-billing/{bid}/statement'>['statement'];
type Movement = StatementOf['movements'][number];
type Proof = Output<'get /api/v1/customer-billing/{bid}/reconciliation'>['reconciliation'];

const proofs = {
  EXACT: ['good', 'Exact: the books have all that was used, and no more'],
  ON_ITS_WAY: ['idle', 'Events are still on their way to the books: prove again'],
  MISSING: ['bad', 'The books lack some of what was used'],
  TOO_MUCH: ['bad', 'The books have more than was used'],
} as const;
const refillColumns: readonly Column<Refill>[] = [
  { title: 'Refilled', cell: ({ createdAt }) => <Time at={createdAt} /> },
  { title: 'Credits', cell: ({ amount }) => <Amount of={amount} />, isNumber: true },
  { title: 'Bought by then', cell: ({ totalCredits }) => <Amount of={totalCredits} />, isNumber: true },
  { title: 'By', cell: ({ tokenId }) => <code title={tokenId}>{tokenId}</code>, isExtra: true },
];
const kinds = {
  granted: 'Granted',
  expired: 'Expired',
  voided: 'Voided',
  usage: 'Usage',
  adjustment: 'Correction',
  late: 'Late',
  loss: 'Lost',
} satisfies Record<Movement['kind'], string>;
const movementColumns: readonly Column<Movement>[] = [
  { title: 'Day', width: '9rem', cell: ({ day }) => day },
  {
    title: 'Movement',
    isMain: true,
    cell: (one) => <span title={nameOf(one)}>{nameOf(one)}</span>,
    below: ({ reason }) => reason,
  },
  { title: 'Why', cell: ({ reason }) => <span title={reason}>{reason}</span>, isExtra: true },
  { title: 'Change', note: 'of what remains', cell: (one) => <Amount of={changeBy(one)} />, isNumber: true },
];

function nameOf({ kind, name, month }: Movement): string {
  return [kinds[kind], name, month && `of ${month}`].filter(Boolean).join(': ');
}

// A statement adds to what is used; what remains becomes less by it.
function changeBy({ balance, amount }: Movement): string {
  if (balance === 'total' || microsIn(amount) === 0n) return amount;
  return amount.startsWith('-') ? amount.slice(1) : `-${amount}`;
}

/** Whether the record's balance and its events say the same. */
export function ProofOfBooks({ bid }: { bid: string }) {
  const [proof, setProof] = useState<Proof>();
  return (
    <section>
      <header class="page">
        <h2>Proof</h2>
        <Form
          submit="Prove the books"
          isMinor
          onSubmit={async () =>
            setProof((await call('get /api/v1/customer-billing/{bid}/reconciliation', { bid })).reconciliation)
          }
        >
          {null}
        </Form>
      </header>
      <div role="status">
        {proof ? <Proved of={proof} /> : <p class="muted">Compares the balance with every event, now.</p>}
      </div>
    </section>
  );
}

function Proved({ of: proof }: { of: Proof }) {
  const [kind, text] = proofs[proof.status];
  return (
    <>
      <p>
        <State kind={kind}>{text}</State>
      </p>
      <Facts
        of={[
          ['Used, by the balance', <Amount of={proof.usedCredits} />],
          ['Used, by the events', <Amount of={proof.bookedCredits} />],
          ['Billed', <Amount of={proof.billedCredits} />],
          ['Difference', <Amount of={proof.difference} />],
        ]}
      />
    </>
  );
}

/** The statement of a record. */
export function Statement({ bid }: { bid: string }) {
  return (
    <StatementOfMonth
      on={bid}
      read={(month, signal) => call('get /api/v1/customer-billing/{bid}/statement', { bid, month }, signal)}
      path={`/api/v1/customer-billing/${encodeURIComponent(bid)}/statement`}
    />
  );
}

type StatementProps = {
  /** What the statement is of. */
  on: string;
  read(month: string, signal: AbortSignal): Promise<{ statement: StatementOf }>;
  path: string;
};

/** What a month began with, what moved, and what it ended with. */
export function StatementOfMonth({ on, read, path }: StatementProps) {
  const [month, setMonth] = useState(() => new Date().toISOString().slice(0, 7));
  const { value, problem } = useRead((signal) => read(month, signal), [on, month]);
  return (
    <section>
      <header class="page">
        <h2>Statement</h2>
        <SaveButton path={`${path}?month=${month}&format=csv`} file={`statement-${month}-${on}.csv`}>
          Download the statement
        </SaveButton>
      </header>
      <Field
        label="Month"
        name="month"
        type="month"
        value={month}
        onInput={(event) => event.currentTarget.value && setMonth(event.currentTarget.value)}
      />
      <ProblemNote problem={problem} />
      {value && (
        <>
          <Facts
            of={[
              ['Remaining at the beginning', <Amount of={value.statement.opening.remaining} />],
              ['Remaining at the end', <Amount of={value.statement.closing.remaining} />],
              ['Days of', value.statement.timezone],
              ['Month', value.statement.closed ? 'closed: it never changes' : 'open'],
            ]}
          />
          <Table
            label="Movements"
            columns={movementColumns}
            items={newestFirst(value.statement.movements, ({ day }) => day)}
            keyOf={(one) => `${one.day} ${one.kind} ${one.name} ${one.balance} ${one.grantId} ${one.eventId}`}
            empty="Nothing moved in this month. Choose another one above."
          />
        </>
      )}
    </section>
  );
}

/** The refills of the record. */
export function Ledger({ bid }: { bid: string }) {
  const pages = usePages(
    async (cursor, signal) => {
      const input = { bid, limit: 200, ...(cursor && { cursor }) };
      const page = await call('get /api/v1/customer-billing/{bid}/ledger', input, signal);
      return { items: page.ledger, nextCursor: page.nextCursor };
    },
    [bid],
  );
  return (
    <section>
      <h2>Ledger</h2>
      <PagedTable
        label="Ledger"
        columns={refillColumns}
        pages={pages}
        keyOf={({ id }) => id}
        empty="No refill yet. A refill adds bought credits that never expire."
      />
    </section>
  );
}
