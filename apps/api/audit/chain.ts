import type { Query, Sql, Transaction } from '../../../shared/stores/postgres.ts';
import type { MasterKeys } from '../../../shared/values/seal.ts';
import { keepChainKey, type ChainState } from './chain-key.ts';
import { BEGINNING, headText, lineFields, nextHead, parseHead, type Head, type LineFields } from './line-mac.ts';

type Line = LineFields & { id: string };

// A line may have 128 KiB.
const LINES_AT_ONCE = 200;

/**
 * Chains some of the lines that are not in the chain yet, in one transaction: a crash leaves them all as they were. Gives
 * whether more may be waiting. While another process chains, it does nothing.
 */
export async function chainSome(sql: Sql, masterKeys: MasterKeys): Promise<boolean> {
  return sql.begin(async (tx) => {
    const [state] = await tx<ChainState[]>`
      select key_sealed, sealed_under from audit_chain_state for update skip locked`;
    if (!state) return false;
    const key = await keepChainKey(tx, masterKeys, state);
    const lines = await waitingLines(tx);
    if (lines.length === 0) return false;
    await addToChain(tx, key, lines);
    return lines.length === LINES_AT_ONCE;
  });
}

/** The last place of the chain; undefined while it has no line. */
export async function chainHead(sql: Query): Promise<Head | undefined> {
  const [row] = await sql<{ head: string }[]>`
    select number || ':' || encode(mac, 'hex') as head from audit_chain order by number desc limit 1`;
  return row && parseHead(row.head);
}

/** Whether the chain has this head among its places. */
export async function hasHead(sql: Query, { number, mac }: Head): Promise<boolean> {
  const rows = await sql`select from audit_chain where number = ${number} and mac = decode(${mac}, 'hex')`;
  return rows.length > 0;
}

// In these queries `offset 0` and the comparison with null keep Postgres from joining whole tables for each page.
// A line that vanished before it was chained stays noted: it makes the age of what waits rise, and the proof fail.
function waitingLines(tx: Transaction): Promise<Line[]> {
  return tx<Line[]>`
    select line.* from audit_unchained u
    cross join lateral (select ${lineFields(tx)} from audit_log l where l.id = u.line_id offset 0) as line
    order by u.line_id limit ${LINES_AT_ONCE}`;
}

async function addToChain(tx: Transaction, key: Buffer, lines: Line[]): Promise<void> {
  const heads: Head[] = [];
  for (const line of lines) heads.push(nextHead(key, heads.at(-1) ?? (await chainHead(tx)) ?? BEGINNING, line));
  const ids = lines.map(({ id }) => id);
  await tx`
    insert into audit_chain (number, line_id, mac)
    select split_part(head, ':', 1)::bigint, line_id, decode(split_part(head, ':', 2), 'hex')
    from unnest(${heads.map(headText)}::text[], ${ids}::text[]) as added (head, line_id)`;
  await tx`delete from audit_unchained where line_id = any(${ids})`;
}
