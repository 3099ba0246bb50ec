import { parseCredits } from '../../shared/values/credits.ts';
import { IS_USAGE, type Books } from '../../shared/stores/clickhouse.ts';
import type { Debit } from './model.ts';
import type { Json } from './programs.ts';
import type { Work } from './work.ts';

/** What the books have: of each amount of a record how many events. */
export type Booked = (debit: Debit) => number;

/** Reads the books, as no program does. */
export async function readBooked(
  { client }: Books,
  workspaceId: string,
): Promise<{ booked: Booked; micros: Map<string, number>; events: number }> {
  const query = `select billing_id, cost_micros, kind, toUInt32(count()) from usage_events final
    where ${IS_USAGE} and workspace_id = {workspaceId:String} and cost_micros <> 0 group by all`;
  const answer = await client.query({ query, query_params: { workspaceId }, format: 'JSONCompactEachRow' });
  const rows = await answer.json<[billingId: string, micros: string, kind: string, events: number]>();
  const counts = new Map<string, number>();
  const micros = new Map<string, number>();
  let events = 0;
  for (const [billingId, cost, kind, count] of rows) {
    const at = `${billingId} ${kind} ${cost}`;
    counts.set(at, (counts.get(at) ?? 0) + count);
    micros.set(billingId, (micros.get(billingId) ?? 0) + Number(cost) * count);
    events += count;
  }
  return {
    booked: ({ meter, what, micros: amount }) => counts.get(`${meter.id} ${what} ${amount}`) ?? 0,
    micros,
    events,
  };
}

/** Holds the books against all that clients were answered, once nothing is on its way. */
export async function proveBooks(
  books: Books,
  { model, breaks, workspaceId }: Work,
  usedOf: (id: string) => Promise<Json>,
): Promise<void> {
  const { booked, micros, events } = await readBooked(books, workspaceId);
  let told = 0;
  for (const debit of model.debits) {
    const count = booked(debit);
    told += count;
    const what = `${debit.what} of ${debit.micros} from ${debit.meter.name} (${debit.state})`;
    if (count > 1 && !debit.mayBeDouble) breaks(`the ${what} is in the books ${count} times`);
    if (count > 0 && debit.state === 'none') breaks(`the ${what} is in the books`);
    if (count === 0 && debit.state === 'sure' && !debit.mayBeLost) breaks(`the ${what} is not in the books`);
  }
  if (told !== events) breaks(`the books have ${events - told} events that nobody asked for`);
  for (const meter of model.meters) {
    const billing = await usedOf(meter.id);
    const used = parseCredits(billing.usedCredits);
    if (used !== (micros.get(meter.id) ?? 0))
      breaks(`${meter.name} has used ${used}, and its events are ${micros.get(meter.id) ?? 0}`);
  }
}
