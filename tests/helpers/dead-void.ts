import { recordChanges } from '../../apps/api/sync/sync.ts';
import { countBegun } from '../../apps/api/resources/grants/classes.ts';
import { voidGrant } from '../../apps/api/resources/grants/voids.ts';
import { requireGrant } from '../../apps/api/resources/grants/grants.ts';
import type { World } from './world.ts';

/** What an api leaves that dies after it committed the void of a grant at an instant. Redis hears of it by the sweeper, 3 s later. */
export async function leaveVoid({ sql, team }: World, id: string, grantId: string, atMs = Date.now()): Promise<void> {
  await sql.begin(async (tx) => {
    const [{ shard, tokenId }] = await tx<[{ shard: number; tokenId: string }]>`
      select b.shard, t.id as token_id from billing_records b join access_tokens t on t.team_id = b.team_id
      where b.id = ${id} for update of b`;
    await countBegun(tx, { id }, atMs);
    const row = await requireGrant(tx, { id }, grantId);
    const voider = { teamId: team.id, tokenId, requestId: 'req_dead', atMs };
    const entityId = await voidGrant(tx, { id }, { ...row, voidedAt: atMs, voidReason: 'r' }, voider);
    await recordChanges(tx, [
      { kind: 'billing', entityId: id, shard },
      { kind: 'adjustment', entityId, shard },
    ]);
  });
}
