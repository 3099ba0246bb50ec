import type { Attributes } from '../runtime/telemetry.ts';
import type { Decision } from './decision.ts';
import { ownerOf } from './outcomes.ts';

/** What a span says of a decision: ids, and nothing that a client sent. */
export function attributesOf({ status, reason, lookup }: Decision): Attributes {
  const owner = lookup && ownerOf(lookup);
  return {
    'keytally.status': status,
    ...(reason && { 'keytally.reason': reason }),
    ...(owner && { 'keytally.key.id': owner.keyId, 'keytally.workspace.id': owner.workspaceId }),
  };
}
