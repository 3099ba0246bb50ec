import { setTimeout as sleep } from 'node:timers/promises';
import type { History, Record_ } from './history.ts';
import type { Manager } from './load/manager.ts';
import { creditsOf, micros } from './load/traffic.ts';

const DRAINED_WITHIN_MS = 45_000;
// A 503 says that nothing is known yet. Of a record with losses the service waits for what is on its way, on a busy machine too.
const RECONCILED_WITHIN_MS = 180_000;
const LOOK_EVERY_MS = 200;

/** Waits until the books have everything that a record counted; records what the service says of it then, right or not. */
export async function noteRecord(
  manager: Manager,
  history: History,
  workspaceId: string,
  meter: { billing: string; name: string },
): Promise<void> {
  let record = await ask();
  const until = performance.now() + DRAINED_WITHIN_MS;
  // They must agree twice: while events are under way they may agree by chance, but not for long.
  for (let agreed = 0; agreed < 2 && performance.now() < until;) {
    await sleep(LOOK_EVERY_MS);
    record = await ask();
    const inBooks = record.rows.reduce((sum, row) => sum + row.micros, 0);
    agreed = inBooks === record.usedMicros && record.found === 'EXACT' ? agreed + 1 : 0;
  }
  history.add(record);

  async function ask(): Promise<Record_> {
    const names = new URLSearchParams({ workspaceId, externalMeterId: meter.name });
    const { billing } = (await manager.look(`/customer-billing?${names.toString()}`)).body;
    const { data = [] } = (await manager.look(`/usage/${meter.billing}`)).body;
    const unknown = { usedMicros: NaN, totalMicros: NaN, limitMicros: NaN };
    const path = `/customer-billing/${meter.billing}/reconciliation`;
    const { reconciliation } = (await manager.look(path, RECONCILED_WITHIN_MS)).body;
    return {
      type: 'record',
      phase: manager.phase,
      billing: meter.billing,
      ...(billing ? creditsOf(billing) : unknown),
      rows: data.map(({ day, billingUsageName: name, totalBillingUsage, events }) => ({
        day,
        name,
        micros: micros(totalBillingUsage),
        events,
      })),
      found: reconciliation?.status ?? 'UNKNOWN',
      reportedLost: reconciliation?.losses.reduce((sum, { events }) => sum + events, 0) ?? 0,
      refillsMicros: await refills(manager, meter.billing),
    };
  }
}

/** Records what the service says of keys and of the workspace. */
export async function noteSettings(
  manager: Manager,
  history: History,
  workspaceId: string,
  keys: Iterable<string>,
): Promise<void> {
  for (const key of keys) {
    const { http = 0, body } = await manager.look(`/workspace/${workspaceId}/api-key/${key}`);
    const { name, enabled, deleted } = body.apiKey ?? {};
    const state = name !== undefined && { name, enabled: enabled!, deleted: deleted! };
    history.add({ type: 'entity', phase: manager.phase, id: key, http, ...state });
  }
  const { http = 0, body } = await manager.look(`/workspace/${workspaceId}`);
  const { name } = body.workspace ?? {};
  history.add({ type: 'entity', phase: manager.phase, id: workspaceId, http, ...(name !== undefined && { name }) });
}

async function refills(manager: Manager, billing: string): Promise<number[]> {
  const amounts: number[] = [];
  let cursor = '';
  do {
    const { body } = await manager.look(
      `/customer-billing/${billing}/ledger?limit=200${cursor && `&cursor=${cursor}`}`,
    );
    for (const { amount } of body.ledger ?? []) amounts.push(micros(amount));
    cursor = encodeURIComponent(body.nextCursor ?? '');
  } while (cursor);
  return amounts;
}
