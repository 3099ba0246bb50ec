import { cpSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { casesOf, type Case, type Violation } from './checks/case.ts';
import { checkCase } from './checks/check.ts';
import { hadTime } from './checks/time.ts';
import type { Act } from './breaking/faults.ts';
import { makeHistory } from './history.ts';
import { noteAll, playPhase, type Played } from './phase.ts';
import type { Random } from '../helpers/random.ts';
import { openStage, type Stage } from './stage.ts';

export type Outcome = { cases: Case[]; violations: Violation[] };

type Options = {
  acts: Act[];
  seed: number;
  random: Random;
  /** Where servers and programs keep their data during the run. */
  folder: string;
  /** Where the history is kept, and the logs of a stage on which something was wrong. */
  kept: string;
  /** After this time no further phase begins. */
  until?: number;
  say(line: string): void;
  /** Called with each opened stage, so that the caller can stop it when the run is cut off. */
  opened?(stage: Stage): void;
};

/** Plays the acts of a run, and checks each phase by its history. */
export async function play({
  acts,
  seed,
  random,
  folder,
  kept,
  until = Infinity,
  say,
  opened,
}: Options): Promise<Outcome> {
  mkdirSync(kept, { recursive: true, mode: 0o700 });
  const history = makeHistory(join(kept, 'history.jsonl'), seed);
  const phases = acts.reduce((sum, act) => sum + act.faults.length, 0);
  let phase = 0;
  for (const [i, { kind, faults }] of acts.entries()) {
    if (performance.now() > until) break;
    const home = join(folder, `act-${i}`);
    const stage = await openStage(home, kind);
    opened?.(stage);
    const played: Played[] = [];
    const found = () => casesOf(history.lines).filter((one) => played.some(({ phase }) => phase === one.phase));
    let wrong = true;
    try {
      for (const fault of faults) {
        if (performance.now() > until) break;
        played.push(await playPhase({ stage, history, random, phase: ++phase, fault }));
        say(progress(`${phase}/${phases}`, kindText(kind), found().at(-1)!));
      }
      // Each phase's records must still be right after all other phases.
      for (const one of played) await noteAll(one, history);
      wrong = found().flatMap(checkCase).length > 0;
    } finally {
      await stage.stop();
      if (wrong) keepLogs(join(home, 'logs'), join(kept, `logs-${i}`));
    }
  }
  history.close();
  const cases = casesOf(history.lines);
  return { cases, violations: cases.flatMap(checkCase) };
}

function keepLogs(from: string, to: string): void {
  cpSync(from, to, { recursive: true, filter: (path) => statSync(path).isDirectory() || path.endsWith('.log') });
}

function kindText({ bus, cluster, minReplicas }: Act['kind']): string {
  return cluster ? `cluster, ${minReplicas} replicas` : bus;
}

function progress(place: string, kind: string, one: Case): string {
  const { fault, verified } = one;
  const violations = checkCase(one);
  const what = `${place.padStart(6)}  ${kind.padEnd(19)} ${fault.padEnd(51)} ${String(verified.length).padStart(6)} calls`;
  const lines = violations.slice(0, 10).map(({ rule, text }) => `\n        VIOLATION  ${rule}: ${text}`);
  const more = violations.length > 10 ? `\n        … and ${violations.length - 10} more` : '';
  const busy = hadTime(one) ? '' : `  (too busy to judge deadlines: ${one.load.toFixed(0)} processes a core)`;
  return `${what}  ${violations.length === 0 ? 'ok' : `${violations.length} violations`}${busy}${lines.join('')}${more}`;
}
