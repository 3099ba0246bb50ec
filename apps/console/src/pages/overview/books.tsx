import { call, type Output } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useWorkspace } from '../../data/session.ts';
import { usePath } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Amount, State, Time } from '../../parts/text.tsx';
import { proof } from './questions.ts';

type Proof = Output<'get /api/v1/workspace/{id}/proof'>['proof'];

/** Whether the books were proved, when, and which records differ. */
export function Books({ everyMs }: { everyMs: number }) {
  const { id } = useWorkspace();
  const { value, problem } = useRead((signal) => call(...proof(id), signal), [id], everyMs);
  return (
    <Panel title="Books" problem={problem} isThere={value !== undefined}>
      {value && <Proved of={value.proof} />}
    </Panel>
  );
}

function Proved({ of: { provedAt, differentRecords, undecidedRecords, different } }: { of: Proof }) {
  const pathOf = usePath();
  if (provedAt === undefined)
    return (
      <p class="muted">
        Not proved yet: each hour all records are compared with their events, for the first time within the hour to
        come. Until then a customer's own page proves its record at once.
      </p>
    );
  return (
    <>
      <p>
        {differentRecords === 0 ? (
          <State kind="good">Exact</State>
        ) : (
          <State kind="bad">
            <Amount of={differentRecords} /> {differentRecords === 1 ? 'record differs' : 'records differ'}
          </State>
        )}
      </p>
      {different.length > 0 && (
        <ul class="plain">
          {different.map(({ billingId, externalMeterId, difference, since }) => (
            <li key={billingId}>
              <a href={pathOf(`customers/${billingId}`)}>{externalMeterId}</a> by <Amount of={difference} />, since{' '}
              <Time at={since} />
            </li>
          ))}
        </ul>
      )}
      <p class="muted">
        Proved <Time at={provedAt} />
        {undecidedRecords > 0 && (
          <>
            ; of <Amount of={undecidedRecords} /> {undecidedRecords === 1 ? 'record' : 'records'} events were on their
            way
          </>
        )}
        .
      </p>
    </>
  );
}
