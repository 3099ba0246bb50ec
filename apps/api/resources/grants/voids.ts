import { dayOf } from '../../../../shared/events/event.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import type { Where } from '../rows.ts';
import type { LockedRecord } from './classes.ts';
import { requireGrant, type GrantRow } from './grants.ts';

/** Who voids a grant, and when. */
export type Voider = { teamId: string; tokenId: string; requestId: string; atMs: number };

/** Voids those grants of a record that `which` says, the latest first: none moves in its class. Gives each as it was, and the id of the adjustment. */
export async function voidGrants(
  sql: Query,
  record: LockedRecord,
  { which, reason: voidReason }: { which: Where; reason: string },
  voider: Voider,
): Promise<{ row: GrantRow; adjustmentId: string }[]> {
  const wanted = await sql<{ id: string }[]>`
    select id from grants where billing_id = ${record.id} and voided_at is null and ${which}
    order by begins_at desc, id desc`;
  const voided: { row: GrantRow; adjustmentId: string }[] = [];
  for (const { id } of wanted) {
    const row = await requireGrant(sql, record, id);
    const adjustmentId = await voidGrant(sql, record, { ...row, voidedAt: voider.atMs, voidReason }, voider);
    voided.push({ row, adjustmentId });
  }
  return voided;
}

/**
 * Voids a grant of a locked record by an adjustment of amount 0 that names it; gives the adjustment's id. Redis does adjustments
 * in their order and once. One that has yet to begin is declared no more; it is voided by the adjustment if it began until Redis
 * heard of that. Redis has heard of all credits of the record (readHeard).
 */
export async function voidGrant(
  sql: Query,
  { id: billingId }: LockedRecord,
  row: GrantRow & { voidReason: string },
  { teamId, tokenId, requestId, atMs }: Voider,
): Promise<string> {
  // A class that rolls over has one grant: whatever is in it.
  const isWhole = row.rollsUntil !== null;
  const micros = isWhole ? WHOLE_CLASS : row.amountMicros;
  const [{ number, lastClass }] = await sql<[{ number: number; lastClass: number }]>`
    update billing_records
    set last_adjustment = last_adjustment + 1, last_class = last_class + ${isWhole ? 0 : 1}::int, has_classes = true
    where id = ${billingId} returning last_adjustment as number, last_class`;
  const voidNumber = isWhole ? null : lastClass;
  await sql`
    update grants set voided_at = ${row.voidedAt}, void_reason = ${row.voidReason}, void_number = ${voidNumber} where id = ${row.id}`;
  const by = { id: newId('evt'), teamId, tokenId, requestId, billingId, number, reason: row.voidReason };
  const nothing = { amountMicros: 0, usageName: 'default', day: dayOf(atMs) };
  const beforeMicros = row.hasBegun ? row.beforeMicros : TO_COME;
  const voids = { grantId: row.id, class: row.number, voidNumber, beforeMicros, grantMicros: micros };
  await sql`insert into adjustments ${sql({ ...by, ...nothing, ...voids })}`;
  await sql`update billing_records set version = version + 1, updated_at = now() where id = ${billingId}`;
  return by.id;
}

/**
 * Parts the newest credits of a grant that has begun from it, as a grant of their own; gives its id. What was used of the grant were its
 * oldest, so they are the last that anybody used.
 */
export async function partGrant(sql: Query, grantId: string, micros: number): Promise<string> {
  const id = newId('grant');
  await sql`
    with rest as (
      update grants set amount_micros = amount_micros - ${micros} where id = ${grantId} returning *)
    insert into grants (id, team_id, billing_id, class, amount_micros, name, priority, begins_at, expires_at, metadata, before_micros,
                        token_id, request_id)
    select ${id}, team_id, billing_id, class, ${micros}, name, priority, begins_at, expires_at, metadata, before_micros + amount_micros,
           token_id, request_id
    from rest`;
  return id;
}

const WHOLE_CLASS = -1;
const TO_COME = -1;
