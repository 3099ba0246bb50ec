import { useState } from 'preact/hooks';
import { spans, useOutcomes, type Span } from '../../data/outcomes.ts';
import { useWorkspace } from '../../data/session.ts';
import { StackedBars } from '../../parts/chart.tsx';
import { Choice } from '../../parts/form.tsx';
import { Decisions, OutcomeSums, useDecisions } from '../../parts/outcomes.tsx';
import { usePath } from '../../parts/page.tsx';
import { ProblemNote } from '../../parts/text.tsx';

/** What the key's calls were answered: over time, and one by one. */
export function KeyOutcomes({ apiKeyId }: { apiKeyId: string }) {
  const { id: workspaceId } = useWorkspace();
  const pathOf = usePath();
  const [span, setSpan] = useState<Span>('day');
  const { counts, chart, problem } = useOutcomes({ workspaceId, apiKeyId, groupBy: 'status,reason,limit' }, span);
  const recent = useDecisions({ apiKeyId });
  return (
    <>
      <section>
        <header class="page">
          <h2>Outcomes</h2>
          <Choice
            label="Time"
            name="span"
            options={spans}
            value={span}
            isInline
            onChoice={(one) => setSpan(one as Span)}
          />
        </header>
        <ProblemNote problem={problem} />
        {!problem && !chart && <p aria-busy="true">Loading…</p>}
        {!problem && counts && chart && (
          <>
            {counts.data.length > 0 && <StackedBars {...chart} />}
            <OutcomeSums {...counts} />
          </>
        )}
      </section>
      <section>
        <header class="page">
          <h2>Recent decisions</h2>
          <a href={pathOf(`why?key=${apiKeyId}`)}>Why was it refused?</a>
        </header>
        <ProblemNote problem={recent.problem} />
        {!recent.problem && !recent.value && <p aria-busy="true">Loading…</p>}
        {recent.value && <Decisions items={recent.value} />}
      </section>
    </>
  );
}
