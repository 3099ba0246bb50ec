import { Type } from 'typebox';
import { plainText } from '../../../../shared/contract/schema-kinds.ts';
import { reasons, statuses } from '../../../../shared/verification/operation.ts';
import { keylessReasons } from '../../../../shared/verification/outcomes.ts';

/** What is told of a decision. */
export const outcome = {
  status: Type.Enum([...statuses], { description: 'the answer to the call' }),
  reason: Type.Optional(
    Type.Enum([...reasons, ...keylessReasons], {
      description: 'why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID',
    }),
  ),
  route: Type.Optional(plainText(1024, 'the route that the call named', 'GET /documents')),
};

/** A row of the books without what they leave empty. */
export function withoutEmpty(row: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== ''));
}
