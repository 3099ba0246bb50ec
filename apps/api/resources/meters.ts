import { Type } from 'typebox';
import {
  count,
  credits,
  id,
  named,
  nameOf,
  object,
  plainText,
  textsByName,
  timestamp,
} from '../../../shared/contract/schema-kinds.ts';
import { meterKinds, type MeterKind } from '../../../shared/values/meter-kinds.ts';
import { answered, columnsOf, present, tableOf, without, type Row } from './rows.ts';
import { webhook } from './webhooks.ts';

export const meterDestination = named(
  'MeterDestination',
  object({
    id: id('meter destination'),
    workspaceId: id('workspace'),
    kind: Type.Enum(Object.keys(meterKinds) as MeterKind[], {
      type: 'string',
      description:
        'in whose form events are sent; `cloudevents` for any collector of these, `http` signed as webhooks are',
    }),
    name: nameOf(128, 'what people call it', 'Stripe'),
    url: { ...webhook.properties.url, examples: ['https://api.stripe.com/v1/billing/meter_events'] },
    eventNames: textsByName(
      { mostNames: 200, mostCharacters: 100 },
      'event name of a usage name: of a meter of Stripe, an event type of CloudEvents, a code of Lago; null: such usage is not sent. Other names are sent as they are, and usage without one as `usage`',
      { tokens: 'llm_tokens', internal: null },
    ),
    measure: Type.Enum(['credits', 'events'], {
      type: 'string',
      description: 'what is sent to a destination that takes one number, and what the proof compares',
    }),
    unit: credits('how much one is, of a destination that takes whole numbers (Stripe); the rest is carried on'),
    batchSize: Type.Integer({
      minimum: 1,
      maximum: 100,
      description: 'most events of a request; with 1, CloudEvents are sent in structured mode, else in batched mode',
      examples: [100],
    }),
    startsAt: timestamp('usage is sent from this hour on'),
    enabled: Type.Boolean({
      description: 'whether it is sent anything; what is used meanwhile waits',
      examples: [true],
    }),
    waitingEvents: count('events that wait', 0),
    waitingSince: Type.Optional(timestamp('the oldest hour that waits')),
    failedEvents: count('events that failed for good', 0),
    lastSentAt: Type.Optional(timestamp('when it last took events')),
    failingSince: Type.Optional(timestamp('since when it takes none')),
    lastError: Type.Optional(plainText(2_048, 'why not, or why the last event failed', '401: Invalid API Key')),
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when its settings last changed'),
  }),
);

const settings = without(meterDestination, ['unit']);
export type MeterRow = Row<typeof settings> & { teamId: string; unitMicros: number };

const sumOf = (state: string) =>
  `(select coalesce(sum(s.number), 0)::bigint from meter_sums s where s.destination_id = meter_destinations.id and s.state = '${state}')`;

const columns = columnsOf(settings, {
  waitingEvents: sumOf('WAITING'),
  waitingSince: `(select min(e.hour) from meter_events e where e.destination_id = meter_destinations.id and e.state = 'WAITING')`,
  failedEvents: sumOf('FAILED'),
});
const table = tableOf<MeterRow>(
  'meter_destinations',
  `${columns}, team_id, unit_micros`,
  'meter_destination_not_found',
);
export const meters = answered('meter_destination', table, (row) => present(meterDestination, row), {
  enabled: false,
  secretSealed: null,
});
