import { useState } from 'preact/hooks';
import { useOutcomes, type OutcomesOf } from '../../data/outcomes.ts';
import { spans, type Span } from '../../data/spans.ts';
import { useWorkspace } from '../../data/session.ts';
import { StackedBars } from '../../parts/chart.tsx';
import { Field } from '../../parts/form.tsx';
import { Decisions, OutcomeSums, useDecisions } from '../../parts/outcomes.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { Section, usePath } from '../../parts/page.tsx';

/** What the key's calls were answered: over time, and one by one. */
export function KeyOutcomes({ apiKeyId }: { apiKeyId: string }) {
  return (
    <>
      <Outcomes of={{ apiKeyId }} why={`key=${apiKeyId}`} />
      <Section title="Recent decisions">
        <Loaded of={useDecisions({ apiKeyId })}>{(items) => <Decisions items={items} />}</Loaded>
      </Section>
    </>
  );
}

/** What calls were answered over time; `why` is the question of the page that explains a refusal. */
export function Outcomes({ of, why }: { of: OutcomesOf; why: string }) {
  const { id: workspaceId } = useWorkspace();
  const pathOf = usePath();
  const [span, setSpan] = useState<Span>('day');
  const actions = (
    <div class="actions">
      <a href={pathOf(`why?${why}`)}>Why was it refused?</a>
      <Field label="Time" name="span" options={spans} value={span} isInline onText={(one) => setSpan(one as Span)} />
    </div>
  );
  return (
    <Section title="Outcomes" action={actions}>
      <Loaded of={useOutcomes({ workspaceId, ...of, groupBy: 'status,reason,limit' }, span)}>
        {({ counts, chart }) => (
          <>
            {counts.data.length > 0 && <StackedBars {...chart} />}
            <OutcomeSums {...counts} />
          </>
        )}
      </Loaded>
    </Section>
  );
}
