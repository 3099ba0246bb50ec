import { availableParallelism, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeCast, type Cast } from './load/participants.ts';
import { startChanges } from './load/changes.ts';
import { makeBlow, type Fault } from './breaking/fault.ts';
import type { History } from './history.ts';
import { makeManager, type Manager } from './load/manager.ts';
import { noteRecord, noteSettings } from './wait-until-drained.ts';
import type { Random } from './random.ts';
import type { Stage } from './stage.ts';
import { makeVerifier, startTraffic, type Verifier } from './load/traffic.ts';

export type Played = { phase: number; manager: Manager; cast: Cast };

const WARM_UP_MS = 700;
const EXPIRES_AFTER_MS = 4_000;
const BACK_WITHIN_MS = 120_000;

/** One fault under load: makes the cast, lets it call, makes the fault, waits until all is back and quiet. */
export async function playPhase(
  stage: Stage,
  history: History,
  random: Random,
  phase: number,
  fault: Fault,
): Promise<Played> {
  const manager = makeManager(stage, history, random.fork(`manager ${phase}`), phase);
  const verifier = makeVerifier(stage, history, random.fork(`verifier ${phase}`), phase);
  const cast = await makeCast(manager, EXPIRES_AFTER_MS);
  const { name, verifyWithinMs, manageWithinMs } = fault;
  const span = { type: 'span', phase, fault: name } as const;

  const began = history.now();
  const pulse = setInterval(() => {
    const load = (loadavg()[0] ?? 0) / availableParallelism();
    history.add({ type: 'pulse', phase, at: history.now(), load });
  }, 1_000);
  const traffic = startTraffic(verifier, cast, random.fork(`traffic ${phase}`));
  const changes = startChanges(manager, verifier, cast, random.fork(`changes ${phase}`));
  await sleep(WARM_UP_MS);

  const from = history.now();
  const blow = makeBlow({ stage, random: random.fork(`fault ${phase}`), verifier, history, phase, fault: name });
  await fault.make(blow).catch((error: unknown) => blow.complain(`the fault went wrong: ${String(error)}`));
  const withTimeout = { ...(verifyWithinMs && { verifyWithinMs }), ...(manageWithinMs && { manageWithinMs }) };
  history.add({ ...span, what: 'fault', from, to: history.now(), ...withTimeout });
  await comesBack(stage, history, verifier, manager, cast);
  await sleep(WARM_UP_MS);
  await Promise.all([traffic.stop(), changes.stop()]);
  // Once more, when nothing is under way any longer: whatever came last to Redis, it is what was answered.
  for (const key of changes.keys) {
    for (const text of key.texts.keys()) await verifier.verify(key, { text, insist: true });
  }
  clearInterval(pulse);
  history.add({ ...span, what: 'phase', from: began, to: history.now() });

  const played = { phase, manager, cast };
  await noteAll(played, history);
  const keys = history.lines.filter(
    (line) => line.type === 'change' && line.phase === phase && line.what === 'key.create',
  );
  const made = new Set(keys.map((line) => (line.type === 'change' ? line.of : '')).filter(Boolean));
  await noteSettings(manager, history, cast.workspaceId, made);
  return played;
}

/** Notes what the service says of a phase's records, now or later. */
export async function noteAll({ manager, cast }: Played, history: History): Promise<void> {
  await Promise.all(cast.meters.map((meter) => noteRecord(manager, history, cast.workspaceId, meter)));
}

/** Waits until every program is ready, and every key that is asked all the time is decided again. */
async function comesBack(
  stage: Stage,
  history: History,
  verifier: Verifier,
  manager: Manager,
  cast: Cast,
): Promise<void> {
  const over = history.now();
  const asked = [...cast.roomy, ...cast.tight, cast.capped, cast.repeated, cast.limited, cast.unmetered, cast.lasting];
  for (;;) {
    const waiting = asked.filter((key) => verifier.decidedAt(key.id) < over);
    const ready = await stage.allReady();
    if (waiting.length === 0 && ready) return;
    if (history.now() - over > BACK_WITHIN_MS) {
      const text = `${BACK_WITHIN_MS / 1000} s after the fault ${waiting.length} keys wait, programs are ${ready ? '' : 'not '}ready`;
      return history.add({ type: 'finding', phase: manager.phase, text });
    }
    await sleep(50);
  }
}
