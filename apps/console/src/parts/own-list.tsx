import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import type { Needs } from '../data/hooks.ts';
import { Ask } from './dialog.tsx';
import type { Fields, Given } from './form.tsx';
import { Section } from './page.tsx';
import { Table, type Column } from './table.tsx';

type Changes<Item, F extends Fields> = {
  one: string;
  look?: 'outline';
  needs: Needs;
  nameOf(item: Item): string;
  /** The fields of one that there is, or of a new one. */
  fieldsOf(item: Partial<Item>): F;
  add(given: Given<F>): Promise<unknown>;
  change(item: Item, given: Given<F>): Promise<unknown>;
  remove(item: Item): Promise<unknown>;
  /** What is said where one is changed, and where one is deleted. */
  keeps?: string;
  ends?(item: Item): string;
  /** Gives back one that was deleted. */
  restore?(item: Item): Promise<unknown>;
};

/** A button that makes one of something, and the column of those that change and delete one. */
export function changesOf<Item, F extends Fields>(of: Changes<Item, F>): [ComponentChildren, Column<Item>] {
  const { one, look = 'main', needs, nameOf, fieldsOf, add, change, remove, keeps, ends, restore } = of;
  const cell = (item: Item) => {
    const row = { one, row: nameOf(item) };
    const undoing = restore && { says: `The ${one} ${nameOf(item)} is deleted.`, undo: () => restore(item) };
    return (
      <>
        <Ask does="Edit" {...row} fields={fieldsOf(item)} onSubmit={(given) => change(item, given)} says={keeps} />{' '}
        <Ask does="Delete" {...row} onSubmit={() => remove(item)} says={ends?.(item)} undoing={undoing} />
      </>
    );
  };
  const make = <Ask does="New" one={one} look={look} needs={needs} fields={fieldsOf({})} onSubmit={add} />;
  return [make, { title: 'Change', width: '11rem', needs, cell }];
}

type Named = { name: string };
/** What is in a list: what one is called, how it shows, its fields, and what is made of what they are given. */
export type Kind<Item extends Named, F extends Fields> = Pick<Changes<Item, F>, 'one' | 'fieldsOf'> & {
  columns: readonly Column<Item>[];
  itemIn(given: Given<F>): Item;
  empty: string;
};

type Props<Item extends Named, F extends Fields> = {
  title: string;
  of: Kind<Item, F>;
  items: readonly Item[] | undefined;
  needs: Needs;
  /** The items as they are by now. */
  read(): Promise<readonly Item[] | undefined>;
  onChange(items: Item[] | null): Promise<unknown>;
};

/** A short list of something of its owner, which is written as a whole: what is in it, and adding, changing and deleting one. */
export function OwnList<Item extends Named, F extends Fields>(props: Props<Item, F>) {
  const { title, of, items = [], needs, read, onChange } = props;
  const { itemIn, columns, empty, ...kind } = of;
  // One change after the other, each of what there is by then.
  const before = useRef<Promise<unknown>>(Promise.resolve());
  const alter = (altered: (all: readonly Item[]) => Item[]) => {
    const changing = before.current.then(async () => {
      const all = altered((await read()) ?? []);
      await onChange(all.length > 0 ? all : null);
    });
    before.current = changing.catch(() => {});
    return changing;
  };
  const [make, column] = changesOf<Item, F>({
    ...kind,
    look: 'outline',
    needs,
    nameOf: ({ name }) => name,
    add: (given) => alter((all) => [...all, itemIn(given)]),
    change: ({ name }, given) => alter((all) => all.map((one) => (one.name === name ? itemIn(given) : one))),
    remove: ({ name }) => alter((all) => all.filter((one) => one.name !== name)),
    restore: ({ name }) => alter((all) => [...all, ...items.filter((one) => one.name === name)]),
  });
  return (
    <Section title={title} action={make}>
      <Table
        label={title}
        columns={[...columns, column]}
        items={items.map((item) => ({ ...item, id: item.name }))}
        empty={empty}
      />
    </Section>
  );
}
