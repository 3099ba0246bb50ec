import type { Emptied, History, SpanKind } from '../history.ts';
import type { Random } from '../random.ts';
import type { StageKind } from '../stage-kind.ts';
import type { Stage } from '../stage.ts';
import type { Verifier } from '../load/traffic.ts';

/** What a fault has to work with. */
export type FaultContext = {
  stage: Stage;
  random: Random;
  verifier: Verifier;
  /** Notes that something holds for as long as some work takes. */
  during<T>(what: SpanKind, work: () => Promise<T>): Promise<T>;
  /** Notes that Redis was emptied, with the calls whose events it held then. */
  emptied(held: string[]): void;
  /** Notes how long a killed process took to be ready again. */
  returned(program: string, tookMs: number): void;
  /** Notes what is not as the fault demands. */
  complain(text: string): void;
};

export type Fault = {
  /** A line of the table. */
  name: string;
  /** What has to hold besides all that always has to. */
  expected: string;
  /** The stages that it can be made on; preset all. */
  on?(kind: StageKind): boolean;
  /** For how long verification, and management, may be away; where nothing is said, until the fault is over. */
  verifyWithinMs?: number;
  manageWithinMs?: number;
  /** Makes the fault, and ends it. */
  make(context: FaultContext): Promise<void>;
};

export const onPlainRedis = (kind: StageKind) => !kind.cluster;
export const onKafka = (kind: StageKind) => kind.bus === 'kafka';
export const onCluster = (kind: StageKind) => kind.cluster === true;
export const onDisks = (kind: StageKind) => kind.disks === true;

/** What a fault gets, with what it notes put into a history. */
export function makeFaultContext(
  parts: Pick<FaultContext, 'stage' | 'random' | 'verifier'> & { history: History; phase: number; fault: string },
): FaultContext {
  const { history, phase, fault, ...given } = parts;
  return {
    ...given,
    async during(what, work) {
      const from = history.now();
      try {
        return await work();
      } finally {
        history.add({ type: 'span', phase, fault, what, from, to: history.now() });
      }
    },
    emptied: (held) => history.add({ type: 'emptied', phase, at: history.now(), held } satisfies Emptied),
    returned: (program, tookMs) => history.add({ type: 'return', phase, program, tookMs }),
    complain: (text) => history.add({ type: 'finding', phase, text }),
  };
}
