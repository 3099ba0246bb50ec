import { useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { Choice, Dialog, Field, Form } from '../../parts/form.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Amount, ProblemNote } from '../../parts/text.tsx';

type Schedule = Output<'get /api/v1/customer-billing/{bid}/grant-schedules'>['grantSchedules'][number];

const periods = ['day', 'week', 'month', 'year'].map((one) => [one, one] as const);

type Props = { bid: string; mayWrite: boolean; onChanged(): void };

/** Credits that come by themselves. */
export function Schedules({ bid, mayWrite, onChanged }: Props) {
  const [isMaking, setMaking] = useState(false);
  const [deleted, setDeleted] = useState<Schedule>();
  const { value, problem, reload } = useRead(
    (signal) => call('get /api/v1/customer-billing/{bid}/grant-schedules', { bid, limit: 50 }, signal),
    [bid],
  );
  const changed = () => {
    setMaking(false);
    setDeleted(undefined);
    reload();
    onChanged();
  };
  const columns: Column<Schedule>[] = [
    {
      title: 'Schedule',
      isMain: true,
      below: periodOf,
      cell: ({ name }) => <span title={name}>{name ?? 'credits'}</span>,
    },
    { title: 'Credits', cell: ({ credits }) => <Amount of={credits} />, isNumber: true },
    { title: 'Every', cell: periodOf, isExtra: true },
    {
      title: 'Carries over',
      cell: ({ rollover }) => (rollover ? <Amount of={rollover.maxCredits} /> : 'nothing'),
      isNumber: true,
      isExtra: true,
    },
  ];
  if (mayWrite) {
    columns.push({
      title: 'Delete',
      width: '6.5rem',
      cell: (one) => (
        <button
          type="button"
          class="outline small"
          aria-label={`Delete the schedule ${one.name ?? one.id}`}
          onClick={() => setDeleted(one)}
        >
          Delete
        </button>
      ),
    });
  }
  return (
    <section>
      <header class="page">
        <h2>Grant schedules</h2>
        {mayWrite && (
          <button type="button" class="outline" onClick={() => setMaking(true)}>
            New schedule
          </button>
        )}
      </header>
      <ProblemNote problem={problem} />
      {value && (
        <Table
          label="Grant schedules"
          columns={columns}
          items={value.grantSchedules}
          keyOf={({ id }) => id}
          empty="No schedule. One grants credits each day, week, month or year."
        />
      )}
      {isMaking && <NewSchedule bid={bid} onClose={() => setMaking(false)} onMade={changed} />}
      {deleted && (
        <Dialog title="Delete the schedule" onClose={() => setDeleted(undefined)}>
          <Form
            submit="Delete for good"
            onSubmit={async () => {
              await call('delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}', { bid, sid: deleted.id });
              changed();
            }}
          >
            <p>No further period begins. What it has granted stays.</p>
          </Form>
        </Dialog>
      )}
    </section>
  );
}

function periodOf({ every, timezone }: Schedule): string {
  return `${every}, ${timezone}`;
}

function NewSchedule({ bid, onClose, onMade }: { bid: string; onClose(): void; onMade(): void }) {
  return (
    <Dialog title="New schedule" onClose={onClose}>
      <Form
        submit="Create schedule"
        onSubmit={async (value) => {
          await call('post /api/v1/customer-billing/{bid}/grant-schedule', {
            bid,
            credits: value('credits'),
            every: value('every') as Schedule['every'],
            timezone: value('timezone'),
            ...(value('name') && { name: value('name') }),
            ...(value('rollover') && { rollover: { maxCredits: value('rollover') } }),
          });
          onMade();
        }}
      >
        <Field label="Credits" name="credits" required inputMode="decimal" />
        <Choice label="Every" name="every" options={periods} value="month" />
        <Field label="Time zone" name="timezone" required value={Intl.DateTimeFormat().resolvedOptions().timeZone} />
        <Field label="Name" name="name" />
        <Field
          label="Carries over at most"
          name="rollover"
          inputMode="decimal"
          hint="Of what is left of a period. Empty: nothing."
        />
      </Form>
    </Dialog>
  );
}
