import type { Caller } from '../contract/caller.ts';
import { ApiError, invalidField } from '../contract/errors.ts';
import { bytesOfText, makeByteCache } from '../runtime/byte-cache.ts';
import { spans } from '../runtime/telemetry.ts';
import { keyspace } from '../stores/keyspace.ts';
import { readRecord } from '../stores/records.ts';
import { formatCredits, parseCredits } from '../values/credits.ts';
import { billingPartOf } from './decision.ts';
import { makeHoldId, readHoldId, shardInHoldId, type HoldFields } from './hold-id.ts';
import type { HoldKeys } from './hold-keys.ts';
import type { CaptureBody, ExtendBody, ReleaseBody } from './hold-operations.ts';
import { makeSlots } from './slots.ts';
import { batchScriptCalls, throwUndecided, type BatchOptions, type BatchScript } from './script-batches.ts';
import { packCapture, readCaptureAnswers, type CaptureAnswer, type What } from './capture-protocol.ts';

/** What is done to holds. Each answers as JSON text. */
export type HoldCalls = {
  capture(caller: Caller, body: CaptureBody): Promise<string>;
  release(caller: Caller, body: ReleaseBody): Promise<string>;
  extend(caller: Caller, body: ExtendBody): Promise<string>;
  /** What makes the ids of a team's holds. */
  idMaker(teamId: string, shard: number): Promise<(fields: HoldFields) => string>;
};

type Asked = { team: string; what: What; amount: number };
/** What answers say of a record's settings, and the mark by which the script sees that they still are those. */
type Settings = { known: string; answerPart: string; spendCapMicros: number };
/** What the script says of a hold that it settled or extended, and the billing record after it. */
type Settled = { hold: HoldFields; late: boolean; endsAtMs: number; overdrawn: boolean; billing: string };

const captureScript: BatchScript<CaptureAnswer> = {
  name: 'capture',
  span: spans.captureScript,
  readAnswers: (answer, { length }) => readCaptureAnswers(answer, length),
};
// What one is expected to cost, as in call-cost.ts.
const COST = 10;
// Settings of some 10,000 records.
const MOST_BYTES_OF_SETTINGS = 8_000_000;

/**
 * Captures, releases and extends holds by the capture script. Who may do so follows from the id, which has a MAC, and the token;
 * nothing is looked up, and the key may be gone. Each can be repeated: the hold's id is the identity of what it does.
 */
export function makeHoldCalls(options: BatchOptions & { holdKeys: HoldKeys }): HoldCalls {
  const { redis, holdKeys, config, telemetry } = options;
  const slots = makeSlots(config.VERIFY_MAX_WAITING);
  const ask = batchScriptCalls(captureScript, options);
  const settle = telemetry.part(spans.settleHold, settleAlone, ({ hold }) => {
    return { 'keytally.key.id': hold.keyId, 'keytally.workspace.id': hold.workspaceId };
  });
  const kept = makeByteCache<Settings>(MOST_BYTES_OF_SETTINGS);

  return {
    async capture(caller, { holdId, usage }) {
      const micros = parseCredits(usage);
      if (micros === undefined) throw invalidField('/usage', 'must be at most 9000000000');
      const { late, overdrawn, billing } = await settle(caller, holdId, 'capture', micros);
      const capture = JSON.stringify({ holdId, usage: formatCredits(micros), late, overdrawn });
      return `{"capture":${capture},"billing":{${billing}}}`;
    },
    async release(caller, { holdId }) {
      const { billing } = await settle(caller, holdId, 'release', 0);
      return `{"release":${JSON.stringify({ holdId })},"billing":{${billing}}}`;
    },
    async extend(caller, { holdId, expiresIn }) {
      const { hold, endsAtMs, billing } = await settle(caller, holdId, 'extend', expiresIn * 1_000);
      const extended = { id: holdId, credits: formatCredits(Number(hold.micros)), expiresAt: endsAtMs };
      return `{"hold":${JSON.stringify(extended)},"billing":{${billing}}}`;
    },
    async idMaker(teamId, shard) {
      const [key] = await holdKeys.get(shard);
      return (fields) => makeHoldId(fields, teamId, key!);
    },
  };

  function settleAlone({ teamId, workspaceIds }: Caller, holdId: string, what: What, amount: number): Promise<Settled> {
    return slots.during(teamId, async () => {
      const hold = await readId(holdId, teamId);
      if (!hold || (workspaceIds && !workspaceIds.includes(hold.workspaceId))) throw new ApiError('hold_not_found');
      return askScript(hold, { team: teamId, what, amount });
    });
  }

  async function readId(holdId: string, teamId: string): Promise<HoldFields | undefined> {
    // Its own: what becomes of another one is nothing to it.
    const shard = shardInHoldId(holdId);
    if (shard === undefined) return undefined;
    return (
      readHoldId(holdId, teamId, await holdKeys.get(shard)) ??
      readHoldId(holdId, teamId, await holdKeys.get(shard, 'again'))
    );
  }

  async function askScript(hold: HoldFields, asked: Asked): Promise<Settled> {
    const { team, what, amount } = asked;
    const shard = Number(hold.shard);
    const key = keyspace.billing(shard, hold.workspaceId, hold.meter);
    const since = redis.clock.monotonic();
    const settings = kept.get(key);
    const packed = packCapture({ what, amount, known: settings?.known ?? '', trace: telemetry.trace() }, hold);
    const call = { shard, key, packed, team, cost: COST, since };
    for (;;) {
      const answer = await ask(call).catch(undecided);
      if (answer.status === 'AGAIN' && redis.clock.monotonic() < since + config.VERIFY_DEADLINE_MS) continue;
      return readAnswer(hold, answer, answer.settings === '' ? settings : keep(key, answer));
    }
  }

  function keep(key: string, { settings, known }: CaptureAnswer): Settings {
    const { answerPart } = readRecord('billing', settings);
    const { spendCap } = JSON.parse(`{${answerPart}}`) as { spendCap?: string };
    const read = { known, answerPart, spendCapMicros: spendCap === undefined ? Infinity : parseCredits(spendCap)! };
    if (known !== '') kept.set(key, read, bytesOfText(key + known + answerPart));
    return read;
  }
}

function readAnswer(
  hold: HoldFields,
  { status, detail, amounts, endsAtMs }: CaptureAnswer,
  settings: Settings | undefined,
): Settled {
  switch (status) {
    case 'OK':
      return { hold, late: detail === '1', endsAtMs: Number(endsAtMs), ...presentAmounts(amounts, settings!) };
    case 'CONFLICT':
      throw new ApiError('hold_settled', { message: conflicts[detail]! });
    case 'UNKNOWN':
      throw new ApiError('hold_not_found');
    case 'TOO_LARGE':
      throw new ApiError('credits_too_large');
    case 'OUTBOX_FULL':
      throw new ApiError('outbox_full');
    default:
      return undecided(new Error(`the capture script answered ${status} ${detail}`));
  }
}

const conflicts: Record<string, string> = {
  captured: 'The hold was captured already, and stays so.',
  charged: 'The hold was charged at its end; capture it within 24 hours to correct the charge.',
  released: 'The hold was released already, and stays so.',
  expired: 'The hold was released at its end; it can be captured for 24 hours, and no longer extended.',
  lost: 'The verification store has lost the hold: it can be captured, and not extended.',
  'given back': 'The charge was given back already; the correction would make the used credits negative.',
};

const undecided = throwUndecided(
  'The hold was not settled in time, or that was not confirmed. Repeat the request: it is settled once.',
);

function presentAmounts(
  amounts: string,
  { answerPart, spendCapMicros }: Settings,
): Pick<Settled, 'overdrawn' | 'billing'> {
  const [usedMicros = 0, heldMicros = 0, totalMicros = 0, expiredMicros = 0] = amounts.split(' ').map(Number);
  const taken = usedMicros + heldMicros;
  const overdrawn = taken > totalMicros - expiredMicros || taken > spendCapMicros;
  // Settings of an account say less than all of its credits.
  const known = { billingPart: answerPart, totalMicros: NaN };
  return { overdrawn, billing: billingPartOf(known, { usedMicros, heldMicros, totalMicros, expiredMicros }) };
}
