import { setTimeout as sleep } from 'node:timers/promises';
import type { Granted, History, Record_, StatementLine } from './history.ts';
import type { Body } from './load/client.ts';
import type { Manager } from './load/manager.ts';
import type { Meter } from './load/participants.ts';
import { creditsOf, micros } from './load/traffic.ts';

const DRAINED_WITHIN_MS = 45_000;
// A 503 says that nothing is known yet: of a record with losses the service waits for what is on its way, and on a busy
// machine every answer may be late.
const ANSWERED_WITHIN_MS = 180_000;
const LOOK_EVERY_MS = 200;

/** Waits until the books have everything that a record counted; gives what the service says of it then, right or not. */
export async function drainedRecord(manager: Manager, workspaceId: string, meter: Meter): Promise<Record_> {
  let record = await ask();
  const until = performance.now() + DRAINED_WITHIN_MS;
  // They must agree twice: while events are under way they may agree by chance, but not for long.
  for (let agreed = 0; agreed < 2 && performance.now() < until;) {
    await sleep(LOOK_EVERY_MS);
    record = await ask();
    const inBooks = record.rows.reduce((sum, row) => sum + row.micros, 0);
    const isProved =
      record.found === 'EXACT' && record.heldMicros === 0 && !(meter.hasGrants && !('proofMicros' in record));
    agreed = inBooks === record.usedMicros && isProved ? agreed + 1 : 0;
  }
  return meter.hasGrants ? { ...record, grants: await grantsOf(manager, meter.billing) } : record;

  async function ask(): Promise<Record_> {
    const names = new URLSearchParams({ workspaceId, externalMeterId: meter.name });
    const { billing } = (await manager.look(`/customer-billing?${names.toString()}`, ANSWERED_WITHIN_MS)).body;
    const { data = [] } = (await manager.look(`/usage/${meter.billing}`, ANSWERED_WITHIN_MS)).body;
    const unknown = { usedMicros: NaN, heldMicros: NaN, totalMicros: NaN, limitMicros: NaN };
    const path = `/customer-billing/${meter.billing}/reconciliation`;
    const { reconciliation } = (await manager.look(path, ANSWERED_WITHIN_MS)).body;
    return {
      type: 'record',
      phase: manager.phase,
      billing: meter.billing,
      ...(billing ? creditsOf(billing) : unknown),
      expiredMicros: micros(billing?.expiredCredits),
      availableMicros: micros(billing?.availableCredits),
      rows: data.map(({ day, billingUsageName: name, totalBillingUsage, events }) => ({
        day,
        name,
        micros: micros(totalBillingUsage),
        events,
      })),
      found: reconciliation?.status ?? 'UNKNOWN',
      reportedLost: reconciliation?.losses.reduce((sum, { events }) => sum + events, 0) ?? 0,
      ...(reconciliation?.grants && { proofMicros: micros(reconciliation.grants.difference) }),
      refillsMicros: await refills(manager, meter.billing),
    };
  }
}

/**
 * What finance is told of each record of a workspace: its line of the statements of all days since the run began, and the usage
 * of the same days. Waits until no line is pending.
 */
export async function statementLines(
  manager: Manager,
  workspaceId: string,
  startedAtMs: number,
): Promise<Map<string, StatementLine>> {
  const days = { from: dayAt(startedAtMs), to: dayAt(Date.now()) };
  const usage = new URLSearchParams({ workspaceId, ...days, interval: 'month', groupBy: 'billing', limit: '10000' });
  const list = new URLSearchParams({ workspaceId, ...days, limit: '200' });
  const until = performance.now() + DRAINED_WITHIN_MS;
  for (;;) {
    const { data = [] } = (await manager.look(`/usage?${usage.toString()}`, ANSWERED_WITHIN_MS)).body;
    const { statements = [] } = (await manager.look(`/statements?${list.toString()}`, ANSWERED_WITHIN_MS)).body;
    if (!statements.some(({ proof }) => proof === 'PENDING') || performance.now() > until)
      return new Map(
        statements.map((line) => [
          line.billingId,
          {
            openingMicros: micros(line.openingUsed),
            movedMicros: micros(line.usage) + micros(line.adjustments) + micros(line.late),
            closingMicros: micros(line.closingUsed),
            usageMicros: data
              .filter(({ billingId }) => billingId === line.billingId)
              .reduce((sum, row) => sum + micros(row.totalBillingUsage), 0),
            proof: line.proof,
          },
        ]),
      );
    await sleep(LOOK_EVERY_MS);
  }
}

function dayAt(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
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
  const { ledger } = await readPages(manager, `/customer-billing/${billing}/ledger`);
  return ledger.map(({ amount }) => micros(amount));
}

/** All grants of a record. */
async function grantsOf(manager: Manager, billing: string): Promise<Granted[]> {
  const { grants } = await readPages(manager, `/customer-billing/${billing}/grants`);
  return grants.map(({ id, name = '', state, credits, usedCredits, expiredCredits, remainingCredits }) => ({
    id,
    name,
    state,
    micros: micros(credits),
    usedMicros: micros(usedCredits),
    expiredMicros: micros(expiredCredits),
    remainingMicros: micros(remainingCredits),
  }));
}

async function readPages(manager: Manager, path: string): Promise<Required<Pick<Body, 'ledger' | 'grants'>>> {
  const all: Required<Pick<Body, 'ledger' | 'grants'>> = { ledger: [], grants: [] };
  let cursor = '';
  do {
    const { body } = await manager.look(`${path}?limit=200${cursor && `&cursor=${cursor}`}`);
    all.ledger.push(...(body.ledger ?? []));
    all.grants.push(...(body.grants ?? []));
    cursor = encodeURIComponent(body.nextCursor ?? '');
  } while (cursor);
  return all;
}
