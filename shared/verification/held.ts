import type { Caller } from '../contract/caller.ts';
import { formatCredits } from '../values/credits.ts';
import { costOf, usageNameOf } from './call-fields.ts';
import { makeHoldId } from './hold-id.ts';
import type { Lookup } from './lookup-cache.ts';
import type { VerifyBody } from './operation.ts';
import { readLookup, type ScriptAnswer } from './script-protocol.ts';

// `{NN}:b:`, before the workspace in the name of a billing record, and `{NN}:r:` before the key.
const TAG_AND_KIND = 7;

/** The hold of a verification as a part of its answer's JSON; '' where the script held nothing. */
export function heldPart(
  { fields }: ScriptAnswer,
  lookup: Lookup | undefined,
  { caller, body, keys }: { caller: Caller; body: VerifyBody; keys: readonly Buffer[] },
): string {
  // After the amounts of the account.
  const [, , , , id, openedMs, endsAtMs, epoch] = fields.usedMicros.split(' ');
  if (!lookup || id === undefined) return '';
  const { billingKey, rateKey } = readLookup(lookup.text);
  const place = billingKey.slice(TAG_AND_KIND);
  const micros = costOf(body);
  const said = {
    shard: String(lookup.shard),
    workspaceId: lookup.workspaceId,
    meter: place.slice(lookup.workspaceId.length + 1),
    billingId: lookup.billingId,
    id,
    keyId: rateKey.slice(TAG_AND_KIND),
    usageName: usageNameOf(body),
    micros: String(micros),
    openedMs: openedMs!,
    endsAtMs: endsAtMs!,
    epoch: epoch!,
    onExpiry: body.billing!.hold!.onExpiry ?? 'release',
  };
  const holdId = makeHoldId(said, caller.teamId, keys[0]!);
  return `,"hold":{"id":"${holdId}","credits":"${formatCredits(micros)}","expiresAt":${endsAtMs}}`;
}
