import { useRef } from 'preact/hooks';
import type { Needs } from '../data/hooks.ts';
import { Ask } from './dialog.tsx';
import type { FieldData, Given } from './form.tsx';
import { Section } from './page.tsx';
import { Table, type Column } from './table.tsx';

type Named = { name: string };
/** What is in a list: what one is called, how it shows, its fields, and what is made of what they are given. */
export type Kind<Item extends Named, F extends readonly FieldData[]> = {
  one: string;
  columns: readonly Column<Item>[];
  /** The fields of one that there is, or of a new one. */
  fieldsOf(item: Partial<Item>): F;
  itemIn(given: Given<F>): Item;
  empty: string;
};

type Props<Item extends Named, F extends readonly FieldData[]> = {
  title: string;
  of: Kind<Item, F>;
  items: readonly Item[] | undefined;
  needs: Needs;
  /** The items as they are by now. */
  read(): Promise<readonly Item[] | undefined>;
  onChange(items: Item[] | null): Promise<unknown>;
};

/** A short list of something of its owner, which is written as a whole: what is in it, and adding, changing and deleting one. */
export function OwnList<Item extends Named, F extends readonly FieldData[]>(props: Props<Item, F>) {
  const { title, of, items = [], needs, read, onChange } = props;
  const { one, columns, fieldsOf, itemIn, empty } = of;
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
  const actions = (item: Item) => (
    <>
      <Ask
        does="Edit"
        one={one}
        row={item.name}
        fields={fieldsOf(item)}
        onSubmit={(given) => change((all) => all.map((other) => (other.name === item.name ? itemIn(given) : other)))}
      />{' '}
      <Ask
        does="Delete"
        one={one}
        row={item.name}
        onSubmit={() => change((all) => all.filter(({ name }) => name !== item.name))}
      />
    </>
  );
  const adds = (given: Given<F>) => change((all) => [...all, itemIn(given)]);
  return (
    <Section
      title={title}
      action={<Ask does="New" one={one} look="outline" needs={needs} fields={fieldsOf({})} onSubmit={adds} />}
    >
      <Table
        label={title}
        columns={[...columns, { title: 'Change', width: '11rem', needs, cell: actions }]}
        items={items.map((item) => ({ ...item, id: item.name }))}
        empty={empty}
      />
    </Section>
  );
}
