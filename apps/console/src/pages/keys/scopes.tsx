import { call } from '../../data/call.ts';
import { useAnswer, useMay, useWorkspace, type ItemOf, type Needs } from '../../data/hooks.ts';
import { Form } from '../../parts/form.tsx';
import { changesOf } from '../../parts/own-list.tsx';
import { Section } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { Empty, Facts, MakeOne } from '../../parts/text.tsx';
import type { ApiKey } from './api-key.ts';

type Scope = ItemOf<'get /api/v1/workspace/{id}/scopes'>;

/** What keys of the workspace can be granted. */
export function Scopes() {
  const { id } = useWorkspace();
  const [make, column] = changesOf<Scope, ReturnType<typeof fieldsOf>>({
    one: 'scope',
    needs: 'workspace:write',
    nameOf: ({ representation }) => representation,
    fieldsOf,
    add: (given) => call('post /api/v1/workspace/{id}/scope', { id, ...given }),
    change: ({ id: sid }, given) => call('patch /api/v1/workspace/{id}/scope/{sid}', { id, sid, ...given }),
    remove: ({ id: sid }) => call('delete /api/v1/workspace/{id}/scope/{sid}', { id, sid }),
    ends: ({ representation }) => `Every key loses ${representation} at once.`,
  });
  return (
    <List
      page="Scopes"
      action={make}
      of="get /api/v1/workspace/{id}/scopes"
      input={{ id }}
      columns={[
        { title: 'Scope', code: 'representation' },
        { title: 'Name', text: 'name' },
        { title: 'Description', text: ({ description }) => description ?? '' },
        column,
      ]}
      empty="No scope yet. A scope stands for something in your API, such as invoices; keys are granted to create, read, update or delete it."
    />
  );
}

function fieldsOf({ representation, name, description }: Partial<Scope>) {
  const hint = 'What your API asks for, e.g. invoices. It stays once a key has the scope.';
  return [
    { name: 'representation', label: 'Representation', required: true, value: representation, hint },
    { name: 'name', label: 'Name', required: true, value: name },
    { name: 'description', label: 'Description', clears: true, value: description ?? '' },
  ] as const;
}

type Props = { of: ApiKey; needs: Needs; onChange(what: { scopes: ReturnType<typeof scopesIn> }): Promise<unknown> };

const flags = [
  ['create', 'Create'],
  ['read', 'Read'],
  ['update', 'Update'],
  ['del', 'Delete'],
] as const;

const PREFIX = 'scope ';

/** A field for each scope, with the rights that a key has of it, to tick. */
export function scopeFields(scopes: readonly Pick<Scope, 'representation'>[], granted: ApiKey['scopes'] = []) {
  return scopes.map(({ representation }) => {
    const had = granted.find((one) => one.representation === representation);
    const value = flags.filter(([flag]) => had?.[flag]).map(([flag]) => flag);
    // Another field may have the same name.
    return { name: PREFIX + representation, label: representation, as: 'ticks', options: flags, value } as const;
  });
}

/** The scopes that were ticked in such fields. */
export function scopesIn(given: object) {
  return Object.entries(given as Record<string, string[]>)
    .filter(([name, rights]) => name.startsWith(PREFIX) && rights.length > 0)
    .map(([name, rights]) => {
      const ticked = Object.fromEntries(flags.map(([flag]) => [flag, rights.includes(flag)]));
      return { representation: name.slice(PREFIX.length), ...ticked };
    });
}

/** What the key may do: each scope of the workspace with its four rights, to tick; its own ones where it may not be changed. */
export function KeyScopes({ of: key, needs, onChange }: Props) {
  const { id } = useWorkspace();
  const may = useMay();
  const mayChange = may('workspace:read') && may(needs);
  const read = useAnswer('get /api/v1/workspace/{id}/scopes', mayChange ? { id } : undefined);
  if (!mayChange) {
    const granted = key.scopes.map((scope) => {
      const rights = flags.filter(([flag]) => scope[flag]).map(([, text]) => text);
      return [scope.representation, rights.join(', ')] as const;
    });
    return (
      <Section title="Scopes">
        {granted.length > 0 ? <Facts of={granted} /> : <Empty>The key has no scopes.</Empty>}
      </Section>
    );
  }
  return (
    <Section title="Scopes" of={read}>
      {({ scopes }) =>
        scopes.length === 0 ? (
          <Empty children={<MakeOne what="scope" page="scopes" why="to limit what a key may do" />} />
        ) : (
          <Form
            submit="Save scopes"
            fields={scopeFields(scopes, key.scopes)}
            onSubmit={(given) => onChange({ scopes: scopesIn(given) })}
          />
        )
      }
    </Section>
  );
}
