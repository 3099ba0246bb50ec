import { call, type Input } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Form } from '../../parts/form.tsx';
import { usePath } from '../../parts/page.tsx';
import { Empty, ProblemNote } from '../../parts/text.tsx';
import type { ApiKey } from './keys.tsx';

type Change = Pick<Input<'patch /api/v1/workspace/{id}/api-key/{akid}'>, 'scopes'>;
type Props = { of: ApiKey; mayChange: boolean; onChange(what: Change): Promise<void> };

const flags = [
  ['create', 'create'],
  ['read', 'read'],
  ['update', 'update'],
  ['del', 'delete'],
] as const;

/** What the key may do: each scope of the workspace with its four rights. */
export function KeyScopes(props: Props) {
  const may = useMay();
  return (
    <section>
      <h2>Scopes</h2>
      {may('workspace:read') ? <Editor {...props} /> : <Granted of={props.of} />}
    </section>
  );
}

function Editor({ of: key, mayChange, onChange }: Props) {
  const { id } = useWorkspace();
  const pathOf = usePath();
  const { value, problem } = useRead((signal) => call('get /api/v1/workspace/{id}/scopes', { id }, signal), [id]);
  if (problem) return <ProblemNote problem={problem} />;
  if (!value) return <p aria-busy="true">Loading…</p>;
  if (value.scopes.length === 0) {
    return (
      <Empty>
        The workspace has no scopes. <a href={pathOf('scopes')}>Make one</a> to limit what a key may do.
      </Empty>
    );
  }
  const granted = new Map(key.scopes.map((scope) => [scope.representation, scope]));
  const table = (
    <div class="table" role="region" aria-label="Scopes of the key" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Scope</th>
            {flags.map(([flag, title]) => (
              <th key={flag} scope="col" class="mark">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {value.scopes.map(({ id, name, representation }) => (
            <tr key={id}>
              <td title={name}>
                <code>{representation}</code>
              </td>
              {flags.map(([flag, title]) => (
                <td key={flag} class="mark">
                  <input
                    type="checkbox"
                    name={`${flag} ${representation}`}
                    aria-label={`${title} ${representation}`}
                    defaultChecked={granted.get(representation)?.[flag] ?? false}
                    disabled={!mayChange}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
  if (!mayChange) return table;
  const save = (_: unknown, form: FormData) => {
    const chosen = value.scopes.map(({ representation }) => ({
      representation,
      ...Object.fromEntries(flags.map(([flag]) => [flag, form.has(`${flag} ${representation}`)])),
    }));
    return onChange({
      scopes: chosen.filter((scope) => flags.some(([flag]) => (scope as Record<string, unknown>)[flag])),
    });
  };
  return (
    <Form submit="Save scopes" onSubmit={save}>
      {table}
    </Form>
  );
}

function Granted({ of: { scopes } }: { of: ApiKey }) {
  if (scopes.length === 0) return <Empty>The key has no scopes.</Empty>;
  return (
    <ul>
      {scopes.map((scope) => (
        <li key={scope.representation}>
          <code>{scope.representation}</code>{' '}
          {flags
            .filter(([flag]) => scope[flag])
            .map(([, title]) => title)
            .join(', ')}
        </li>
      ))}
    </ul>
  );
}
