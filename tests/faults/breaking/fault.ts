import type { Emptied, History, Return, SpanKind, Verified } from '../history.ts';
import type { Manager } from '../load/manager.ts';
import type { Participants } from '../load/participants.ts';
import type { Random } from '../../helpers/random.ts';
import type { StageKind } from '../stage-kind.ts';
import type { Stage } from '../stage.ts';
import type { Verifier } from '../load/traffic.ts';

/** What a fault works with. */
export type FaultContext = {
  stage: Stage;
  random: Random;
  verifier: Verifier;
  manager: Manager;
  participants: Participants;
  /** Records that something holds while some work runs; `billing` names the record that it concerns alone. */
  during<T>(what: SpanKind, work: () => Promise<T>, billing?: string): Promise<T>;
  /** Records that Redis was emptied, with the calls whose events it held. */
  emptied(held: string[]): void;
  /** Records that everything was put back to what it was when a backup began. */
  restored(backupFrom: number): void;
  /** The newest call of a record that was VALID. */
  newestValid(billing: string): Verified | undefined;
  now(): number;
  /** Records how long a killed process took to be ready again. */
  returned(program: string, times: Pick<Return, 'tookMs' | 'waitedMs'>): void;
  /** Records something that does not meet what the fault demands. */
  complain(text: string): void;
};

export type Fault = {
  /** Names its line in the table. */
  name: string;
  /** What must hold besides the rules that always hold. */
  expected: string;
  /** The stages on which it can be made; default all. */
  on?(kind: StageKind): boolean;
  /** Its clients make no holds, no grants and no limits over windows: a version of before does not know them. */
  plain?: boolean;
  /** For how long verification and management may be unavailable; by default until the fault is over. */
  verifyWithinMs?: number;
  manageWithinMs?: number;
  /** Makes the fault, and ends it. */
  make(context: FaultContext): Promise<void>;
};

export const onPlainRedis = (kind: StageKind) => !kind.cluster;
export const onKafka = (kind: StageKind) => kind.bus === 'kafka';
export const onCluster = (kind: StageKind) => kind.cluster === true;
export const onDisks = (kind: StageKind) => kind.disks === true;

/** The context of a fault, which records into a history. */
export function makeFaultContext(
  parts: Pick<FaultContext, 'stage' | 'random' | 'verifier' | 'manager' | 'participants'> & {
    history: History;
    phase: number;
    fault: string;
  },
): FaultContext {
  const { history, phase, fault, ...given } = parts;
  return {
    ...given,
    async during(what, work, billing) {
      const from = history.now();
      try {
        return await work();
      } finally {
        history.add({
          type: 'span',
          phase,
          fault,
          what,
          from,
          to: history.now(),
          ...(billing !== undefined && { billing }),
        });
      }
    },
    emptied: (held) => history.add({ type: 'emptied', phase, at: history.now(), held } satisfies Emptied),
    restored: (backupFrom) => history.add({ type: 'restored', phase, backupFrom, at: history.now() }),
    newestValid: (billing) =>
      history.lines.findLast(
        (line): line is Verified => line.type === 'verify' && line.billing === billing && line.status === 'VALID',
      ),
    now: history.now,
    returned: (program, times) => history.add({ type: 'return', phase, program, ...times }),
    complain: (text) => history.add({ type: 'finding', phase, text }),
  };
}
