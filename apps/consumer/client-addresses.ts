import type { CarriedOutcome } from '../../shared/events/outcome.ts';
import { openAddresses } from '../../shared/events/sealed-addresses.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';

/**
 * Opens the addresses that refusals carry, of workspaces that keep them, and takes off all others, just before they are inserted: a
 * workspace that keeps none has none in the books.
 */
export async function withAddresses(
  sql: Sql,
  redis: ShardedRedis,
  outcomes: CarriedOutcome[],
): Promise<CarriedOutcome[]> {
  const named = outcomes.flatMap((one) => (one.kind === 'refusal' && one.address !== '' ? [one] : []));
  if (named.length === 0) return outcomes;
  const ids = [...new Set(named.map(({ workspaceId }) => workspaceId))];
  const rows = await sql<{ id: string }[]>`
    select id from workspaces where id = any(${ids}) and keep_client_addresses`;
  const keeping = new Set(rows.map(({ id }) => id));
  const kept = named.filter(({ workspaceId }) => keeping.has(workspaceId));
  const addresses = kept.map(({ address }) => address);
  const open = await openAddresses(redis, addresses);
  return outcomes.map((one) => {
    if (one.kind !== 'refusal') return one;
    return { ...one, address: keeping.has(one.workspaceId) ? open(one.address, one.id) : '' };
  });
}
