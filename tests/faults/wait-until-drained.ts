import { setTimeout as sleep } from 'node:timers/promises';
import type { Granted, History, Record_, StatementLine } from './history.ts';
import type { Body } from './load/client.ts';
import type { Manager } from './load/manager.ts';
import type { Meter } from './load/participants.ts';
import { creditsOf, micros } from './load/traffic.ts';

const DRAINED_WITHIN_MS = 45_000;
// On a busy machine one look may take longer than all of that time.
const LEAST_LOOKS = 20;
const LOOK_EVERY_MS = 200;
const UNKNOWN = 'UNKNOWN';

/** Waits until the books have everything that a record counted; gives what the service says of it then, right or not. */
export async function drainedRecord(manager: Manager, workspaceId: string, meter: Meter): Promise<Record_> {
  const until = performance.now() + DRAINED_WITHIN_MS;
  let record = await ask();
  // They must agree twice: while events are under way they may agree by chance, but not for long.
  for (let [looks, agreed] = [1, Number(isDrained(record))]; agreed < 2; looks++) {
    // What is unknown was looked at for long, and is a finding.
    const hasTime = performance.now() < until || (looks < LEAST_LOOKS && record.found !== UNKNOWN);
    if (!hasTime) break;
    await sleep(LOOK_EVERY_MS);
    record = await ask();
    agreed = isDrained(record) ? agreed + 1 : 0;
  }
  record.refillsMicros = await refills(manager, meter.billing);
  return meter.hasGrants ? { ...record, grants: await grantsOf(manager, meter.billing) } : record;

  function isDrained({ rows, found, usedMicros, heldMicros, proofMicros }: Record_): boolean {
    const inBooks = rows.reduce((sum, row) => sum + row.micros, 0);
    const isProved = found === 'EXACT' && heldMicros === 0 && !(meter.hasGrants && proofMicros === undefined);
    return inBooks === usedMicros && isProved;
  }

  async function ask(): Promise<Record_> {
    const names = new URLSearchParams({ workspaceId, externalMeterId: meter.name });
    const { billing } = (await manager.look(`/customer-billing?${names.toString()}`)).body;
    const { data = [] } = (await manager.look(`/usage/${meter.billing}`)).body;
    const unknown = { usedMicros: NaN, heldMicros: NaN, totalMicros: NaN, limitMicros: NaN };
    const path = `/customer-billing/${meter.billing}/reconciliation`;
    const { reconciliation } = (await manager.look(path)).body;
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
      found: reconciliation?.status ?? UNKNOWN,
      reportedLost: reconciliation?.losses.reduce((sum, { events }) => sum + events, 0) ?? 0,
      ...(reconciliation?.grants && { proofMicros: micros(reconciliation.grants.difference) }),
      refillsMicros: [],
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
  for (let looks = 1; ; looks++) {
    const { data = [] } = (await manager.look(`/usage?${usage.toString()}`)).body;
    const { statements = [] } = (await manager.look(`/statements?${list.toString()}`)).body;
    const isOver = looks >= LEAST_LOOKS && performance.now() > until;
    if (isOver || !statements.some(({ proof }) => proof === 'PENDING'))
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
