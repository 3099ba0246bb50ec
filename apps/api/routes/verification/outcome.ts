import { Type } from 'typebox';
import { reasons, statuses, type Status } from '../../../../shared/verification/operation.ts';
import { keylessReasons, type KeylessReason } from '../../../../shared/verification/outcomes.ts';

/** What is told of a decision. */
export const outcome = {
  status: Type.Enum([...statuses], { description: 'the answer to the call' }),
  reason: Type.Optional(
    Type.Enum([...reasons, ...keylessReasons], {
      description: 'why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID',
    }),
  ),
  route: Type.Optional(
    Type.String({ maxLength: 1024, description: 'the route that the call named', examples: ['GET /documents'] }),
  ),
};

type Told = { status: Status; reason?: (typeof reasons)[number] | KeylessReason; route?: string };

/** A decision as the books have it; what they leave empty is absent. */
export function presentOutcome({ status, reason, route }: Record<'status' | 'reason' | 'route', string>): Told {
  return {
    status: status as Status,
    ...(reason !== '' && { reason: reason as (typeof reasons)[number] | KeylessReason }),
    ...(route !== '' && { route }),
  };
}
