import { setTimeout as sleep } from 'node:timers/promises';
import { formatCredits, MAX_MICROS, parseSignedCredits } from '../../../shared/values/credits.ts';
import { makeBatches, type Batched } from './batches.ts';
import type { Participants, Key } from './participants.ts';
import { call, type Billing, type Reply } from './client.ts';
import type { History, Verified } from '../history.ts';
import { codeOf } from './manager.ts';
import type { Random } from '../../helpers/random.ts';
import type { Stage } from '../stage.ts';

export type Verifier = {
  /** Verifies once. With `insist`, uses an Idempotency-Key and repeats the call until it is decided. */
  verify(
    key: Key,
    options?: { costMicros?: number; secretIndex?: number; insist?: boolean; token?: Token },
  ): Promise<void>;
  /** When a key was last decided, by the history's clock. */
  decidedAt(keyId: string): number;
  undecided(): number;
  calls(): number;
  codes: Map<number, number>;
};
export type Token = { id: string; text: string };

// Gateways mostly call verify; the api verifies too.
const TARGETS = ['verify-1', 'verify-2', 'verify-1', 'verify-2', 'verify-1', 'verify-2', 'api-1', 'api-2'] as const;
// The share of calls that go in batches; an attempt may go in one, and its repetition alone.
const BATCHED = 0.4;
const REPEAT_AFTER_MS = 60;
// An Idempotency-Key of a verification is kept for 60 s.
const REPEAT_WITHIN_MS = 45_000;

export function makeVerifier(stage: Stage, history: History, random: Random, phase: number): Verifier {
  const decided = new Map<string, number>();
  const codes = new Map<number, number>();
  let calls = 0;
  let undecided = 0;

  const batched = makeBatches(async (verifications) => {
    const at = random.pick(TARGETS);
    const options = { token: stage.token, body: { verifications } };
    return { at, reply: await call('post', `${stage.url(at)}/api/v1/api-key/verify/batch`, options) };
  });

  async function single(body: object, token: string, headers: Record<string, string>): Promise<Batched> {
    const at = random.pick(TARGETS);
    return { at, reply: await call('post', `${stage.url(at)}/api/v1/api-key/verify`, { token, body, headers }) };
  }

  async function attempt(
    name: string,
    key: Key,
    given: { costMicros: number; secretIndex: number; once: boolean; token?: Token | undefined },
  ) {
    const { costMicros, secretIndex, once, token } = given;
    const from = history.now();
    const body = {
      key: key.secrets[secretIndex],
      billing: { usage: formatCredits(costMicros), usageName: name },
      ...(key.ip && { ip: key.ip }),
    };
    const { at, reply } =
      token === undefined && random.chance(BATCHED)
        ? await batched({ ...body, ...(once && { idempotencyKey: name }) })
        : await single(body, token?.text ?? stage.token, once ? { 'Idempotency-Key': name } : {});
    const line: Verified = {
      type: 'verify',
      phase,
      call: name,
      from,
      to: history.now(),
      at,
      key: key.id,
      secretIndex,
      ...(token && { token: token.id }),
      ...(key.meter && { billing: key.meter.billing }),
      costMicros,
      idempotent: once,
      ...answered(reply),
    };
    history.add(line);
    calls++;
    if (line.code) codes.set(line.code, (codes.get(line.code) ?? 0) + 1);
    if (line.http === 200) decided.set(key.id, line.to);
    else if (line.http === undefined || line.http >= 500) undecided++;
    return line;
  }

  return {
    codes,
    calls: () => calls,
    undecided: () => undecided,
    decidedAt: (keyId) => decided.get(keyId) ?? 0,
    async verify(key, { costMicros = 0, secretIndex = key.secrets.length - 1, insist = false, token } = {}) {
      const name = `${phase}-${calls}-${random.between(0, 1e9)}`;
      const until = performance.now() + REPEAT_WITHIN_MS;
      let line = await attempt(name, key, { costMicros, secretIndex, once: insist, token });
      while (insist && line.http !== 200 && performance.now() < until) {
        await sleep(REPEAT_AFTER_MS);
        line = await attempt(name, key, { costMicros, secretIndex, once: true, token });
      }
      // A client without a decision waits before it calls again.
      if (line.http !== 200) await sleep(REPEAT_AFTER_MS);
    },
  };
}

function answered({ http, body, error }: Reply): Partial<Verified> {
  if (http === undefined) return { error: error ?? '' };
  if (http !== 200) return { http, code: codeOf({ http, body }) };
  const { status = '', reason, limitedBy, billing } = body;
  return {
    http,
    status,
    ...(reason !== undefined && { reason }),
    ...(limitedBy !== undefined && { limitedBy: limitedBy.name }),
    ...(billing !== undefined && creditsOf(billing)),
  };
}

/** Used and held credits, total and limit of a billing record in an answer. */
export function creditsOf({
  totalCredits,
  usedCredits,
  heldCredits,
  expiredCredits,
  allowOverages,
  spendCap,
}: Billing) {
  const totalMicros = micros(totalCredits);
  const cap = spendCap === undefined ? MAX_MICROS : micros(spendCap);
  const limitMicros = allowOverages ? cap : Math.min(totalMicros - micros(expiredCredits), cap);
  return { usedMicros: micros(usedCredits), heldMicros: micros(heldCredits), totalMicros, limitMicros };
}

/** An amount of an answer; NaN, which equals nothing, if there is none. */
export function micros(credits: string | undefined): number {
  return parseSignedCredits(credits ?? '') ?? NaN;
}

/** Sends the participants' calls until it is stopped. */
export function startTraffic(
  verifier: Verifier,
  liveHold: (key: Key, within: boolean) => Promise<void>,
  participants: Participants,
  random: Random,
): { stop(): Promise<void> } {
  let stopped = false;
  const { windowed, granted, holding } = participants;
  const line = async (pauseMs: number, one: () => Promise<void>) => {
    while (!stopped) {
      await one();
      await sleep(random.between(pauseMs / 2, pauseMs * 1.5));
    }
  };
  const cost = () => random.between(1, 1_500_000);
  const spend = (key: Key, pauseMs: number) => line(pauseMs, () => verifier.verify(key, { costMicros: cost() }));
  const lines = [
    ...participants.roomy.flatMap((key) => [spend(key, 30), spend(key, 30)]),
    ...participants.tight.map((key) => spend(key, 40)),
    spend(participants.capped, 40),
    ...[0, 1, 2].map(() =>
      line(40, () => verifier.verify(participants.repeated, { costMicros: cost(), insist: true })),
    ),
    ...[0, 1].map(() => spend(participants.limited, 25)),
    ...(windowed ? [spend(windowed, 40)] : []),
    ...(granted ? [spend(granted, 60), ...[0, 1].map(() => line(60, () => liveHold(granted, true)))] : []),
    ...(holding ? [0, 1, 2].map(() => line(60, () => liveHold(holding, false))) : []),
    line(40, () => verifier.verify(participants.unmetered)),
    line(60, () => verifier.verify(participants.listed)),
    line(50, () => verifier.verify(participants.expiring)),
    line(60, () => verifier.verify(participants.lasting)),
  ];
  return {
    async stop() {
      stopped = true;
      await Promise.all(lines);
    },
  };
}
