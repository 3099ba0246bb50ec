import { NEVER, PLAIN_CLASS, PLAIN_NUMBER, type CreditClass } from '../../../../shared/stores/account-settings.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';

// Redis may come back older: it has to hear of classes that ended since then. Those that ended longer ago it has seen.
const ENDED_FOR_DAYS = 35;
// Far fewer have not ended: 16 ends and priorities, and the periods of ten schedules that roll over.
const MOST_CLASSES = 80;

/** Loads the classes of credits of some billing records, by record; what each has of the plain class is `totalMicros`. */
export async function loadClasses(
  sql: Query,
  records: { id: string; totalMicros: number }[],
): Promise<Map<string, CreditClass[]>> {
  if (records.length === 0) return new Map();
  const ids = records.map(({ id }) => id);
  const rows = await sql<ClassRow[]>`
    select * from (
      select c.*, row_number() over (partition by billing_id order by coalesce(rolls_until, ends_at, ${NEVER}) desc, ref) as place
      from grant_classes c
      where billing_id = any(${ids})
        and coalesce(rolls_until, ends_at, ${NEVER}) > extract(epoch from now() - ${`${ENDED_FOR_DAYS} days`}::interval) * 1000) c
    where place <= ${MOST_CLASSES}`;
  const pending = await sql<PendingRow[]>`
    select billing_id, class, begins_at, amount_micros from grants
    where billing_id = any(${ids}) and before_micros is null and voided_at is null order by begins_at, id`;
  const [ofRecord, pendingOf] = [
    Map.groupBy(rows, ({ billingId }) => billingId),
    Map.groupBy(pending, (one) => `${one.billingId} ${one.class}`),
  ];
  const awaited = (billingId: string, ref: string) =>
    (pendingOf.get(`${billingId} ${ref}`) ?? []).map(({ beginsAt, amountMicros }) => ({
      beginsAtMs: beginsAt,
      micros: amountMicros,
    }));
  return new Map(
    records.map(({ id, totalMicros }) => {
      const plain = { ...plainClass(totalMicros), pending: awaited(id, PLAIN_CLASS) };
      const others = (ofRecord.get(id) ?? []).map((row) => classOf(row, awaited(id, row.ref)));
      return [id, [plain, ...others.filter(({ begunMicros, pending }) => begunMicros > 0 || pending.length > 0)]];
    }),
  );
}

/** The class of what a record has bought, without an end: the only one of a record without other grants. */
export function plainClass(totalMicros: number): CreditClass {
  const never = { endsAtMs: NEVER, rollEndsAtMs: 0, rollMaxMicros: 0 };
  return {
    ref: PLAIN_CLASS,
    number: PLAIN_NUMBER,
    priority: 50,
    ...never,
    firstVersion: 0,
    begunMicros: totalMicros,
    pending: [],
  };
}

type ClassRow = {
  billingId: string;
  ref: string;
  number: number;
  priority: number;
  endsAt: number | null;
  rollsUntil: number | null;
  rollMaxMicros: number;
  firstVersion: number;
  begunMicros: number;
};

type PendingRow = { billingId: string; class: string; beginsAt: number; amountMicros: number };

function classOf(row: ClassRow, pending: CreditClass['pending']): CreditClass {
  const { ref, number, priority, endsAt, rollsUntil, rollMaxMicros, firstVersion, begunMicros } = row;
  const ends = { endsAtMs: endsAt ?? NEVER, rollEndsAtMs: rollsUntil ?? 0 };
  return { ref, number, priority, ...ends, rollMaxMicros, firstVersion, begunMicros, pending };
}
