import { Type, type Static } from 'typebox';
import { limitName } from './limits.ts';
import { credits, named, object, textOf, plainText, whole } from './schema-kinds.ts';

const when = object(
  {
    usedPercent: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000,
        description: 'percent of totalCredits less expiredCredits; with `limit`, of what that limit allows',
        examples: [80],
      }),
    ),
    available: Type.Optional(credits('credits that are left, or fewer; holds are not looked at')),
    limit: Type.Optional({ ...limitName, description: 'name of a limit of the record for a day, a week or a month' }),
  },
  { examples: [{ usedPercent: 80 }] },
);

/** When a billing record crosses an alert. */
export const alert = named(
  'Alert',
  object({
    name: textOf(64, 'its name, unique among them', 'low'),
    when,
    topUp: Type.Optional(
      credits(
        'with `available`: how much is to be bought once it is reached, which `credits.top_up_due` tells webhooks',
      ),
    ),
  }),
);
export type Alert = Static<typeof alert>;

export const alerts = Type.Array(alert, {
  maxItems: 8,
  description: 'what is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent`',
  examples: [[{ name: 'low', when: { usedPercent: 80 } }]],
});

/** An alert that was crossed. */
export const crossedAlert = named(
  'AlertTold',
  object({
    id: plainText(64, 'its own id', 'alert_01kafc6v3nf0qtmhd7d5ryx2s9'),
    name: alert.properties.name,
    when,
    at: whole('when it was crossed, in Unix milliseconds', 1_795_162_200_000),
    usedCredits: Type.String({
      pattern: '^-?\\d{1,10}(\\.\\d{1,6})?$',
      description: 'usedCredits after what crossed it: decimal text',
      examples: ['80'],
    }),
    eventId: plainText(64, 'id of the event that crossed it', 'evt_01kafc6v3nf0qtmhd7d5ryx2s9'),
  }),
);
