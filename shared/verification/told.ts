import type { Told } from '../runtime/telemetry.ts';
import type { Decision } from './decision.ts';
import { ownerOf } from './outcomes.ts';

/** What a span says of a decision: ids, and nothing that a client sent. */
export function toldOf({ status, reason, lookup }: Decision): Told {
  const owner = lookup && ownerOf(lookup);
  return {
    'keytally.status': status,
    ...(reason && { 'keytally.reason': reason }),
    ...(owner && { 'keytally.key.id': owner.keyId, 'keytally.workspace.id': owner.workspaceId }),
  };
}
