import { useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from '../data/call.ts';
import { useAnswer, useMay, usePages, useWorkspace } from '../data/hooks.ts';
import { Form } from '../parts/form.tsx';
import { Page, Section } from '../parts/page.tsx';
import { PagedTable } from '../parts/table.tsx';
import { PageLink, ProblemNote } from '../parts/text.tsx';
import { keyColumns } from './keys/keys.tsx';

const WHAT = 'name, customer, id or part of a key; or a meter';

/** Why was this refused? Finds the key or the customer, whose own page tells it. */
export function Why() {
  const { route } = useLocation();
  const { id, pathOf } = useWorkspace();
  // Not in the address: it may be a whole key.
  const [text, setText] = useState<string>();
  const find = async (given: { text: string }) => {
    const akid = given.text;
    if (!/^key_\w{26}$/.test(akid)) return setText(akid);
    await call('get /api/v1/workspace/{id}/api-key/{akid}', { id, akid });
    return route(pathOf(`keys/${akid}`));
  };
  return (
    <Page title="Why was this refused?">
      <Form
        submit="Find"
        look="row"
        fields={[{ name: 'text', label: 'Key or customer', as: 'search', required: true, placeholder: WHAT }]}
        onSubmit={find}
      />
      <p class="muted">The page of a key, or of a customer, tells why its last calls were refused.</p>
      {text !== undefined && <Choices key={text} text={text} />}
    </Page>
  );
}

function Choices({ text }: { text: string }) {
  const { id, pathOf } = useWorkspace();
  const { route } = useLocation();
  const asked = useMay()('billing:read') ? { id, externalMeterId: text } : undefined;
  const records = useAnswer('get /api/v1/workspace/{id}/customer-billings', asked);
  const pages = usePages('get /api/v1/workspace/{id}/api-keys', { id, search: text, limit: 200 });
  const billings = records.value?.billings ?? [];
  const found = [...pages.items.map((one) => `keys/${one.id}`), ...billings.map((one) => `customers/${one.id}`)];
  const only = pages.isWhole && (records.value || !asked) && found.length === 1 ? found[0] : undefined;
  useEffect(() => {
    if (only !== undefined) route(pathOf(only));
  }, [only]);
  return (
    <Section title="Which one?">
      {billings.map((one) => (
        <p key={one.id}>
          <PageLink to={`customers/${one.id}`}>All keys of the meter {one.externalMeterId}</PageLink>
        </p>
      ))}
      <ProblemNote problem={records.problem} />
      <PagedTable
        label="Keys that fit"
        columns={keyColumns}
        pages={pages}
        empty="No key fits. A meter is looked for as a whole, in its own case."
      />
    </Section>
  );
}
