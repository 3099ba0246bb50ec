import { useState } from 'preact/hooks';
import { useOutcomes, type OutcomesOf } from '../../data/outcomes.ts';
import { spans, type Span } from '../../data/spans.ts';
import { useWorkspace } from '../../data/session.ts';
import { StackedBars } from '../../parts/chart.tsx';
import { Choice } from '../../parts/form.tsx';
import { Decisions, OutcomeSums, useDecisions } from '../../parts/outcomes.tsx';
import { usePath } from '../../parts/page.tsx';
import { ProblemNote } from '../../parts/text.tsx';

/** What the key's calls were answered: over time, and one by one. */
export function KeyOutcomes({ apiKeyId }: { apiKeyId: string }) {
  const recent = useDecisions({ apiKeyId });
  return (
    <>
      <Outcomes of={{ apiKeyId }} why={`key=${apiKeyId}`} />
      <section>
        <h2>Recent decisions</h2>
        <ProblemNote problem={recent.problem} />
        {!recent.problem && !recent.value && <p aria-busy="true">Loading…</p>}
        {recent.value && <Decisions items={recent.value} />}
      </section>
    </>
  );
}

/** What calls were answered over time; `why` is the question of the page that explains a refusal. */
export function Outcomes({ of, why }: { of: OutcomesOf; why: string }) {
  const { id: workspaceId } = useWorkspace();
  const pathOf = usePath();
  const [span, setSpan] = useState<Span>('day');
  const { counts, chart, problem } = useOutcomes({ workspaceId, ...of, groupBy: 'status,reason,limit' }, span);
  return (
    <section>
      <header class="page">
        <h2>Outcomes</h2>
        <div class="actions">
          <a href={pathOf(`why?${why}`)}>Why was it refused?</a>
          <Choice
            label="Time"
            name="span"
            options={spans}
            value={span}
            isInline
            onChoice={(one) => setSpan(one as Span)}
          />
        </div>
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
  );
}
