import { availableParallelism, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { chunks } from '../../shared/values/chunks.ts';
import { makeParticipants, type Participants } from './load/participants.ts';
import { startChanges } from './load/changes.ts';
import { makeFaultContext, type Fault } from './breaking/fault.ts';
import type { History, Record_ } from './history.ts';
import { listen } from './load/listener.ts';
import { makeHolder } from './load/holds.ts';
import { makeManager, type Manager } from './load/manager.ts';
import { drainedRecord, noteSettings, statementLines } from './wait-until-drained.ts';
import type { Random } from '../helpers/random.ts';
import type { Stage } from './stage.ts';
import { makeVerifier, startTraffic, type Verifier } from './load/traffic.ts';

export type Played = { phase: number; manager: Manager; participants: Participants };

const WARM_UP_MS = 700;
const EXPIRES_AFTER_MS = 4_000;
const BACK_WITHIN_MS = 120_000;
// A token has five turns in an api: more reads at once would wait there for each other, some of them beyond the deadline.
const NOTED_AT_ONCE = 4;

type Options = { stage: Stage; history: History; random: Random; phase: number; fault: Fault };

/** Plays one fault under load: makes the participants, starts their calls, makes the fault, waits until all is drained. */
export async function playPhase({ stage, history, random, phase, fault }: Options): Promise<Played> {
  const manager = makeManager(stage, history, random.fork(`manager ${phase}`), phase);
  const verifier = makeVerifier(stage, history, random.fork(`verifier ${phase}`), phase);
  const liveHold = makeHolder(stage, history, random.fork(`holds ${phase}`), phase);
  const participants = await makeParticipants(manager, EXPIRES_AFTER_MS, fault.plain);
  const listened = fault.plain ? undefined : await listen(stage, history, participants.workspaceId);
  const played = { phase, manager, participants };
  const span = { type: 'span', phase, fault: fault.name } as const;

  const began = history.now();
  const pulse = setInterval(() => {
    const load = (loadavg()[0] ?? 0) / availableParallelism();
    history.add({ type: 'pulse', phase, at: history.now(), load });
  }, 1_000);
  const traffic = startTraffic(verifier, liveHold, participants, random.fork(`traffic ${phase}`));
  const changes = startChanges({ manager, verifier, participants, random: random.fork(`changes ${phase}`) });
  await sleep(WARM_UP_MS);

  const { verifyWithinMs, manageWithinMs } = fault;
  const from = history.now();
  await makeFault(
    { stage, random: random.fork(`fault ${phase}`), verifier, manager, participants, history, phase },
    fault,
  );
  const deadlines = { ...(verifyWithinMs && { verifyWithinMs }), ...(manageWithinMs && { manageWithinMs }) };
  history.add({ ...span, what: 'fault', from, to: history.now(), ...deadlines });
  await untilBack(stage, history, verifier, played);
  await sleep(WARM_UP_MS);
  await Promise.all([traffic.stop(), changes.stop()]);
  // Once more, now that no change is under way: whichever write came last to Redis, it is the one that was answered.
  for (const key of changes.keys) {
    for (const secretIndex of key.secrets.keys()) await verifier.verify(key, { secretIndex, insist: true });
  }
  clearInterval(pulse);
  history.add({ ...span, what: 'phase', from: began, to: history.now() });
  await noteAll(played, history);
  await noteSettings(manager, history, participants.workspaceId, keysMade(history, phase));
  await listened?.noteTold(phase);
  return played;
}

/** Notes what the service says of a phase's records, now or later. */
export async function noteAll({ manager, participants }: Played, history: History): Promise<void> {
  const { workspaceId, meters } = participants;
  const records: Record_[] = [];
  for (const some of chunks(meters, NOTED_AT_ONCE))
    records.push(...(await Promise.all(some.map((meter) => drainedRecord(manager, workspaceId, meter)))));
  const lines = await statementLines(manager, workspaceId, history.startedAtMs);
  for (const record of records) {
    const statement = lines.get(record.billing);
    history.add(statement ? { ...record, statement } : record);
  }
}

type FaultOptions = Omit<Parameters<typeof makeFaultContext>[0], 'fault'>;

async function makeFault(options: FaultOptions, fault: Fault): Promise<void> {
  const context = makeFaultContext({ ...options, fault: fault.name });
  await fault.make(context).catch((error: unknown) => context.complain(`the fault went wrong: ${String(error)}`));
}

/** The keys that were created in a phase. */
function keysMade(history: History, phase: number): Set<string> {
  const ids = history.lines.flatMap((line) =>
    line.type === 'change' && line.phase === phase && line.what === 'key.create' && line.of ? [line.of] : [],
  );
  return new Set(ids);
}

/** Waits until every program is ready, and every key that is verified all the time is decided again. */
async function untilBack(stage: Stage, history: History, verifier: Verifier, played: Played): Promise<void> {
  const { roomy, tight, capped, repeated, limited, windowed, granted, unmetered, listed, lasting } =
    played.participants;
  const newer = [windowed, granted].filter((key) => key !== undefined);
  const verified = [...roomy, ...tight, capped, repeated, limited, ...newer, unmetered, listed, lasting];
  const over = history.now();
  for (;;) {
    const waiting = verified.filter((key) => verifier.decidedAt(key.id) < over);
    const ready = await stage.allReady();
    if (waiting.length === 0 && ready) return;
    if (history.now() - over > BACK_WITHIN_MS) {
      const text = `${BACK_WITHIN_MS / 1000} s after the fault ${waiting.length} keys wait, programs are ${ready ? '' : 'not '}ready`;
      return history.add({ type: 'finding', phase: played.phase, text });
    }
    await sleep(50);
  }
}
