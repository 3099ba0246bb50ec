import { call, type Output } from '../../data/call.ts';
import { usePages } from '../../data/hooks.ts';
import { PagedTable, type Column } from '../../parts/table.tsx';
import { Amount, Time } from '../../parts/text.tsx';

type Hold = Output<'get /api/v1/customer-billing/{bid}/holds'>['holds'][number];

const columns: readonly Column<Hold>[] = [
  { title: 'For', cell: ({ usageName }) => <span title={usageName}>{usageName}</span>, isMain: true },
  { title: 'Held', cell: ({ credits }) => <Amount of={credits} />, isNumber: true },
  { title: 'Ends', cell: ({ expiresAt }) => <Time at={expiresAt} /> },
  { title: 'Then', cell: ({ onExpiry }) => (onExpiry === 'charge' ? 'charged' : 'released'), isExtra: true },
];

/** What running calls have reserved. */
export function Holds({ bid }: { bid: string }) {
  const pages = usePages(
    async (cursor, signal) => {
      const page = await call(
        'get /api/v1/customer-billing/{bid}/holds',
        { bid, limit: 200, ...(cursor && { cursor }) },
        signal,
      );
      return { items: page.holds, nextCursor: page.nextCursor };
    },
    [bid],
  );
  return (
    <section>
      <h2>Holds</h2>
      <PagedTable
        label="Holds"
        columns={columns}
        pages={pages}
        keyOf={({ id }) => id}
        empty="No open hold. A verification holds credits where its cost is known only afterwards."
      />
    </section>
  );
}
