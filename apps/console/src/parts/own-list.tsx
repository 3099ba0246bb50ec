import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import type { Needs } from '../data/hooks.ts';
import { Ask } from './dialog.tsx';
import { Form, type FieldData, type Given } from './form.tsx';
import { Section } from './page.tsx';
import { Table, type Column } from './table.tsx';

type Named = { name: string };
type Props<Item extends Named, F extends readonly FieldData[]> = {
  title: string;
  /** What one of them is called. */
  one: string;
  items: readonly Item[] | undefined;
  columns: readonly Column<Item>[];
  /** The fields of an item: of one that there is, or of a new one. */
  fieldsOf(item: Partial<Item>): F;
  itemIn(given: Given<F>): Item;
  needs: Needs;
  /** The items as they are by now. */
  read(): Promise<readonly Item[] | undefined>;
  onChange(items: Item[] | null): Promise<unknown>;
  empty: string;
  /** What stands above the list. */
  children?: ComponentChildren;
};

/** A short list of something of its owner, which is written as a whole: what is in it, and adding, changing and removing one. */
export function OwnList<Item extends Named, const F extends readonly FieldData[]>(props: Props<Item, F>) {
  const { title, one, items = [], columns, fieldsOf, itemIn, needs, read, onChange, empty, children } = props;
  // One change after the other, each of what there is by then.
  const before = useRef<Promise<unknown>>(Promise.resolve());
  const change = (alter: (all: readonly Item[]) => Item[]) => {
    const changing = before.current.then(async () => {
      const altered = alter((await read()) ?? []);
      await onChange(altered.length > 0 ? altered : null);
    });
    before.current = changing.catch(() => {});
    return changing;
  };
  const actions: Column<Item> = {
    title: 'Change',
    width: '11rem',
    needs,
    cell: (item) => (
      <>
        <Ask
          text="Edit"
          look="outline small"
          label={`Edit ${item.name}`}
          title={`Edit the ${one}`}
          submit="Save"
          fields={fieldsOf(item)}
          onSubmit={(given) => change((all) => all.map((other) => (other.name === item.name ? itemIn(given) : other)))}
        />{' '}
        <Form
          submit="Remove"
          label={`Remove ${item.name}`}
          look="small"
          onSubmit={() => change((all) => all.filter(({ name }) => name !== item.name))}
        />
      </>
    ),
  };
  return (
    <Section
      title={title}
      action={
        <Ask
          title={`New ${one}`}
          submit={`Add ${one}`}
          needs={needs}
          fields={fieldsOf({})}
          onSubmit={(given) => change((all) => [...all, itemIn(given)])}
        />
      }
    >
      {children}
      <Table label={title} columns={[...columns, actions]} items={items} empty={empty} />
    </Section>
  );
}
