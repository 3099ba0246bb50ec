import type { Caller } from '../contract/caller.ts';
import { ApiError } from '../contract/errors.ts';
import { spans } from '../runtime/telemetry.ts';
import { packFields, readFields } from '../stores/fields.ts';
import { keyspace } from '../stores/keyspace.ts';
import { formatCredits } from '../values/credits.ts';
import { placeOfKey } from '../values/key-text.ts';
import { idempotencyHashOf } from './call-fields.ts';
import type { CancelBody } from './operation.ts';
import { makeSlots } from './slots.ts';
import { workspacesOf } from './script-protocol.ts';
import { batchScriptCalls, throwUndecided, type BatchOptions, type BatchScript } from './script-batches.ts';

/** Cancels a verification, and answers as JSON text. */
export type Cancel = (caller: Caller, body: CancelBody) => Promise<string>;

/** One call of cancel.lua, packed; the script calls its fields by the same names. */
export const cancelFields = ['idempotencyHash', 'callerTeamId', 'callerWorkspaceIds'] as const;
/** What it answers to a call, its fields between `\x1f`. */
export const cancelledFields = ['status', 'detail'] as const;
type CancelAnswer = Record<(typeof cancelledFields)[number], string>;

const cancelScript: BatchScript<CancelAnswer> = {
  name: 'cancel',
  span: spans.cancelScript,
  readAnswers: (answer, { length }) =>
    answer.slice(2, 2 + length).map((text) => readFields(cancelledFields, text, '\x1f')),
};
// What one is expected to cost, as in call-cost.ts: most bring an account up to date or correct counters.
const COST = 30;

/** Cancels verifications by the cancel script: each by its Idempotency-Key, which makes it safe to repeat. */
export function makeCancel(options: BatchOptions): Cancel {
  const { redis, requireMemory, config } = options;
  const slots = makeSlots(config.VERIFY_MAX_WAITING);
  const ask = batchScriptCalls(cancelScript, options);

  return (caller, body) => slots.during(caller.teamId, async () => presented(await askScript(caller, body)));

  async function askScript(caller: Caller, { key: text, idempotencyKey }: CancelBody): Promise<CancelAnswer> {
    const place = placeOfKey(text, caller.teamId);
    if (!place) return { status: 'UNKNOWN', detail: '' };
    requireMemory();
    const packed = packFields(cancelFields, {
      idempotencyHash: idempotencyHashOf(caller, idempotencyKey),
      callerTeamId: caller.teamId,
      callerWorkspaceIds: workspacesOf(caller),
    });
    const since = redis.clock.monotonic();
    let shard = place.home;
    for (;;) {
      const call = { shard, key: keyspace.keyText(shard, place.hash), packed, team: caller.teamId, cost: COST, since };
      const answer = await ask(call).catch(undecided);
      const isInTime = redis.clock.monotonic() < since + config.VERIFY_DEADLINE_MS;
      // The key of an imported secret has moved, or the script goes on where it was asked before.
      if (isInTime && answer.status === 'ELSEWHERE') shard = Number(answer.detail);
      else if (!isInTime || answer.status !== 'AGAIN') return answer;
    }
  }
}

function presented({ status, detail }: CancelAnswer): string {
  switch (status) {
    case 'OK':
      return JSON.stringify({ cancellation: { credits: formatCredits(Number(detail)) } });
    case 'UNKNOWN':
      throw new ApiError('call_not_found');
    case 'LOST':
      throw new ApiError('not_cancellable');
    case 'CONFLICT':
      throw new ApiError('not_cancellable', { message: conflicts[detail]! });
    case 'OUTBOX_FULL':
      throw new ApiError('outbox_full');
    default:
      return undecided(new Error(`the cancel script answered ${status} ${detail}`));
  }
}

const conflicts: Record<string, string> = {
  captured: 'What the verification held was captured already, and stays so.',
  'given back': 'The credits were given back by hand already; the used credits would become negative.',
};

const undecided = throwUndecided(
  'The verification was not cancelled in time, or that was not confirmed. Repeat the request: it is cancelled once.',
);
