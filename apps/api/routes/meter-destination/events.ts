import { Type } from 'typebox';
import { planEvents, readHours, type Before, type PlannedEvent } from '../../../../shared/books/meters/plan.ts';
import { proveMeter } from '../../../../shared/books/meters/proof.ts';
import { invalidField } from '../../../../shared/contract/errors.ts';
import {
  count,
  day,
  id,
  named,
  object,
  plainText,
  timestamp,
  whole,
} from '../../../../shared/contract/schema-kinds.ts';
import { externalIdOf, METERS_CHANNEL, triedAt } from '../../../../shared/stores/meters.ts';
import { formatSum } from '../../../../shared/values/credits.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { meterValue } from '../../../../shared/values/meter-kinds.ts';
import { DAY_MS, dayNumber } from '../../../../shared/values/periods.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireUsageOf, withinSight } from '../../resources/access/access.ts';
import { meters, type MeterRow } from '../../resources/meters.ts';
import { matching, present } from '../../resources/rows.ts';
import { monthOf } from '../../resources/statements/statements.ts';

const MOST_PREVIEWED = 1_000;
const MOST_COUNTED = 100_000;

const fields = {
  billingId: id('billing record'),
  hour: timestamp('when its hour began'),
  usageName: plainText(128, 'usage name; empty: usage that was given none', 'tokens'),
  credits: plainText(32, 'credits that were used: decimal text, below 0 in a correction', '12.5'),
  events: whole('how many events those are', 40),
  externalId: plainText(256, 'what the record is called there', 'cus_NciAYcXfLnqBoz'),
  eventName: plainText(128, 'what the usage name is called there', 'llm_tokens'),
  value: plainText(
    32,
    'what is sent: credits or events, of a destination that takes whole numbers so many of its units',
    '12',
  ),
};

const meterEvent = named(
  'MeterEvent',
  object({
    id: id('meter event'),
    ...fields,
    number: count('0 for the first event of an hour, and counted on for each correction of it', 0),
    state: Type.Enum(['WAITING', 'SENT', 'FAILED', 'CARRIED', 'LEFT_OUT'], {
      type: 'string',
      description:
        'CARRIED: nothing was to be sent yet, as it is below a unit or less than nothing; LEFT_OUT: the record or the usage name is not sent there',
      examples: ['SENT'],
    }),
    endedAt: Type.Optional(timestamp('when it was sent, or failed for good')),
    error: Type.Optional(plainText(2_048, 'why it failed, or was put off', '400: No such customer')),
  }),
);
const previewed = named(
  'MeterPreviewEvent',
  object({
    ...fields,
    state: Type.Enum(['WAITING', 'CARRIED', 'LEFT_OUT'], { type: 'string', examples: ['WAITING'] }),
  }),
);

export const listMeterEvents = listRoute('/api/v1/meter-destination/{mid}/events', 'events', meterEvent, {
  summary: 'List what a destination was, or will be, told, newest first',
  description: 'Of closed hours of the last 93 days.',
  permission: 'metering:read',
  query: {
    state: Type.Optional(meterEvent.properties.state),
    billingId: Type.Optional(id('billing record')),
  },

  async open({ sql, params, query, caller }) {
    const row = await meters.require(sql, params.mid, withinSight(sql, caller));
    const { state, billingId } = query;
    return {
      read: (before, take) => sql<EventRow[]>`
        select id, billing_id, hour, usage_name, number, micros, events, quantity, external_id, event_name, state, ended_at, error
        from meter_events where destination_id = ${row.id} and ${matching(sql, { state, billingId })}
          ${before === '' ? sql`` : sql`and id < ${before}`}
        order by id desc limit ${take}`,
      present: (event) => present(meterEvent, { ...event, hour: event.hour.toISOString(), ...amountsOf(event, row) }),
    };
  },
});

type EventRow = Omit<PlannedEvent, 'state' | 'hourMs'> & {
  id: string;
  hour: Date;
  state: 'WAITING' | 'SENT' | 'FAILED' | 'CARRIED' | 'LEFT_OUT';
  endedAt: Date | null;
  error: string | null;
};

export const redeliverMeterEvents = route('post', '/api/v1/meter-destination/{mid}/redeliver', {
  summary: 'Send events that failed for good again, under the same identities',
  description:
    'Those that are named, or all but those that may have arrived: look there before you name these. At most 10000 at once, so ask again while `remaining` is above 0. Each goes by what its record and its usage name are called there now, and is left out where they are.',
  permission: 'metering:write',
  bodyOptional: true,
  body: object({
    eventIds: Type.Optional(
      Type.Array(id('meter event'), {
        minItems: 1,
        maxItems: 200,
        description: 'only these; default: all that failed and can not have arrived',
      }),
    ),
  }),
  response: object({
    redelivered: count('how many wait now', 3),
    remaining: count('how many are left that can not have arrived, counted to 100000', 0),
  }),

  async handle({ sql, params, body, caller, changed }) {
    const { id, measure } = await meters.require(sql, params.mid, withinSight(sql, caller), { lock: true });
    const failed = sql`
      meter_events e join meter_destinations d on d.id = e.destination_id where e.destination_id = ${id} and e.state = 'FAILED'`;
    const wanted = body?.eventIds ? sql`e.id = any(${body.eventIds.filter(isId)})` : sql`${triedAt(sql)} is null`;
    const measured = measure === 'events' ? sql`events * 1000000` : sql`micros`;
    const [{ redelivered }] = await sql<[{ redelivered: number }]>`
      with failed as (
        select e.id, e.billing_id, e.usage_name, e.quantity, ${measured} as measured, ${triedAt(sql)} is not null as is_tried,
               case when d.event_names::jsonb ? e.usage_name then d.event_names ->> e.usage_name
                    else coalesce(nullif(e.usage_name, ''), 'usage') end as event_name
        from ${failed} and ${wanted} order by e.id limit 10000
      ), named as (
        select failed.*, ${externalIdOf(sql, id)} as external_id from failed join billing_records b on b.id = failed.billing_id
      ), left_out as (
        select * from named where external_id is null or event_name is null
      ), carried_again as (
        update meter_rests r set micros = r.micros + more.micros
        from (select billing_id, usage_name, sum(quantity - measured)::bigint as micros from left_out group by 1, 2) more
        where r.destination_id = ${id} and r.billing_id = more.billing_id and r.usage_name = more.usage_name
      ), changed as (
        update meter_events e
        set state = case when o.id is null then 'WAITING' else 'LEFT_OUT' end, quantity = case when o.id is null then e.quantity else 0 end,
            external_id = coalesce(n.external_id, ''), event_name = coalesce(n.event_name, ''),
            tried_at = case when n.is_tried then now() end, ended_at = null, error = null
        from named n left join left_out o using (id)
        where e.id = n.id and e.state = 'FAILED' returning e.state
      )
      select count(*) filter (where state = 'WAITING') as redelivered from changed`;
    const [{ remaining }] = await sql<[{ remaining: number }]>`
      select count(*) as remaining from (select from ${failed} and ${triedAt(sql)} is null limit ${MOST_COUNTED}) counted`;
    await sql`select pg_notify(${METERS_CHANNEL}, '')`;
    changed({ resource: 'meter_destination', id, after: { redelivered } });
    return { redelivered, remaining };
  },
});

export const previewMeterEvents = route('get', '/api/v1/meter-destination/{mid}/preview', {
  summary: 'See what would be sent for a day, without sending it',
  description: `As if nothing had been sent before: the first ${MOST_PREVIEWED} events, in the order of the hours. A dry run before a destination is enabled: also of hours before it starts, and of those that run as far as they are booked.`,
  permission: 'metering:read',
  query: object({ day: day('the day') }),
  response: object({
    events: Type.Array(previewed, { maxItems: MOST_PREVIEWED }),
    isWhole: Type.Boolean({ description: 'whether these are all', examples: [true] }),
  }),
  errors: ['usage_unavailable', 'usage_too_slow'],

  async handle({ sql, params, query, caller, books, clock }) {
    const row = await meters.require(sql, params.mid, withinSight(sql, caller));
    const workspace = await requireUsageOf(sql, caller, row.workspaceId);
    const startMs = dayNumber(query.day) * DAY_MS;
    const nowMs = clock.now();
    if (startMs < 0 || startMs > nowMs) throw invalidField('day', 'must be a day since 1970 that is not in the future');
    const before: Before = { planned: new Map(), rests: new Map() };
    const events: PlannedEvent[] = [];
    for await (const usage of readHours({ sql, books }, workspace, { startMs, endMs: startMs + DAY_MS, nowMs })) {
      events.push(...(await planEvents(sql, row, usage, before)));
      if (events.length > MOST_PREVIEWED) break;
    }
    return {
      events: events.slice(0, MOST_PREVIEWED).map((event) => {
        return present(previewed, { ...event, hour: new Date(event.hourMs).toISOString(), ...amountsOf(event, row) });
      }),
      isWhole: events.length <= MOST_PREVIEWED,
    };
  },
});

function amountsOf({ micros, quantity }: Pick<PlannedEvent, 'micros' | 'quantity'>, { kind, unitMicros }: MeterRow) {
  return { creditsMicros: micros, value: meterValue(kind, quantity, unitMicros) };
}

const sum = (what: string, example: string) => plainText(32, `${what}: decimal text`, example);

const meterProof = named(
  'MeterProof',
  object({
    month: monthOf('the month'),
    status: Type.Enum(['EXACT', 'PENDING', 'DIFFERENT'], {
      type: 'string',
      description:
        'whether sent is usage less what was left out or is carried on; or events wait, or are to be planned; or some failed, or the books have something else than was planned, or what is carried on does not add up',
      examples: ['EXACT'],
    }),
    from: timestamp('where what is proved begins: the month (UTC), or the hour from which on usage is sent'),
    to: timestamp('where it ends: the month, or the last closed hour'),
    usage: sum('what the books have, in what the destination measures', '1200.5'),
    leftOut: sum('of records and usage names that are not sent there', '0'),
    rests: sum('what is carried on: below a unit, or negative', '0.5'),
    waiting: sum('what waits to be sent', '0'),
    failed: sum('what failed for good', '0'),
    sent: sum('what the destination took', '1200'),
    difference: sum('what the books have more than was planned', '0'),
  }),
);

export const getMeterProof = route('get', '/api/v1/meter-destination/{mid}/proof', {
  summary: 'Prove a month of a destination: sent is usage less what was left out or is carried on',
  description: 'Compares the books with the sums of what was planned, sent and carried on, to the last decimal.',
  permission: 'metering:read',
  query: object({ month: monthOf('the month, in UTC') }),
  response: object({ proof: meterProof }),
  errors: ['usage_unavailable', 'usage_too_slow'],

  async handle({ sql, params, query: { month }, caller, books, clock }) {
    const row = await meters.require(sql, params.mid, withinSight(sql, caller));
    const workspace = await requireUsageOf(sql, caller, row.workspaceId);
    const { status, fromMs, toMs, ...sums } = await proveMeter({ sql, books }, row, {
      month,
      workspace,
      nowMs: clock.now(),
    });
    const texts = Object.fromEntries(Object.entries(sums).map(([name, micros]) => [name, formatSum(micros)]));
    return {
      proof: {
        month,
        status,
        from: new Date(fromMs).toISOString(),
        to: new Date(toMs).toISOString(),
        ...(texts as Record<keyof typeof sums, string>),
      },
    };
  },
});
