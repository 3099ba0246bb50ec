import { HTTP, type CloudEvent } from 'cloudevents';
import { Webhook } from 'standardwebhooks';
import type { MeterKind } from '../../shared/values/meter-kinds.ts';

// Receivers of meter events that hold to the rules of the other sides, as their documents have them.

/** An event that a receiver has taken. */
export type Taken = { identity: string; subject: string; name: string; value: string; events?: number; atMs: number };

type Answer = { status: number; answer: string; retryAfter?: string };
type Asked = { headers: Record<string, string | undefined>; body: string };
type Options = { now(): number; secret: string; perSecond?: number };

const DAY_MS = 86_400_000;
const ok: Answer = { status: 200, answer: '{}' };
const no = (status: number, message: string): Answer => ({ status, answer: JSON.stringify({ error: { message } }) });

/** A receiver of a kind: what it took, once for each identity, and how it answers. */
export function makeMeterReceiver(kind: MeterKind, { now, secret, perSecond = Infinity }: Options) {
  const taken = new Map<string, Taken>();
  // Every event that ever came, by identity: a repetition must be the same.
  const seen = new Map<string, string>();
  const times: number[] = [];
  const busy = new Set<string>();
  let repeated = 0;

  function see(one: Taken): 'new' | 'known' {
    const text = JSON.stringify(one);
    if ((seen.get(one.identity) ?? text) !== text) throw new Error(`${one.identity} was another event before`);
    seen.set(one.identity, text);
    if (!taken.has(one.identity)) return 'new';
    repeated += 1;
    return 'known';
  }

  /** Stripe: one whole number, 35 days back and 5 minutes ahead, each identifier once, refused the second time. */
  function stripe({ headers, body }: Asked): Answer {
    const form = new URLSearchParams(body);
    const text = (name: string) => form.get(name) ?? '';
    if (headers['content-type'] !== 'application/x-www-form-urlencoded') return no(400, 'not a form');
    const [identity, name, subject] = [text('identifier'), text('event_name'), text('payload[stripe_customer_id]')];
    const [value, atMs] = [text('payload[value]'), Number(text('timestamp')) * 1_000];
    if (!/^\d{1,15}$/.test(value)) return no(400, `Invalid value: ${value}`);
    if (identity.length < 1 || identity.length > 100) return no(400, 'Invalid identifier');
    if (name.length < 1 || name.length > 100) return no(400, 'Invalid event_name');
    if (!subject.startsWith('cus_')) return no(400, `No such customer: '${subject}'`);
    if (!Number.isInteger(atMs / 1_000) || atMs < now() - 35 * DAY_MS || atMs > now() + 300_000)
      return no(400, 'The timestamp must be within the past 35 calendar days or up to 5 minutes in the future');
    const one = { identity, subject, name, value, atMs };
    if (see(one) === 'known') return no(400, `An event already exists with identifier ${identity}.`);
    taken.set(identity, one);
    return ok;
  }

  /** Lago: at most 100 events, all of them or none; a transaction_id that it has is an error of its event. */
  function lago({ body }: Asked): Answer {
    const { events } = JSON.parse(body) as { events: LagoEvent[] };
    if (events.length < 1 || events.length > 100) return no(422, 'too many events');
    const all = events.map(({ transaction_id, external_subscription_id, code, timestamp, properties }): Taken => {
      const { credits, events: count } = properties;
      return {
        identity: transaction_id,
        subject: external_subscription_id,
        name: code,
        value: credits,
        events: count,
        atMs: timestamp * 1_000,
      };
    });
    const details = all.flatMap((one, i) =>
      see(one) === 'known' ? [[i, { transaction_id: ['value_already_exist'] }]] : [],
    );
    if (details.length > 0)
      return {
        status: 422,
        answer: JSON.stringify({ status: 422, code: 'validation_errors', error_details: Object.fromEntries(details) }),
      };
    for (const one of all) taken.set(one.identity, one);
    return ok;
  }

  /** CloudEvents, structured or batched, as its own SDK reads them; id and source together are known again, and taken once. */
  function cloudEvents({ headers, body }: Asked): Answer {
    const read = HTTP.toEvent<Amounts>({ headers, body });
    for (const event of Array.isArray(read) ? read : [read]) {
      (event as CloudEvent<Amounts>).validate();
      const { id, source, subject = '', type, time = '', data } = event;
      const identity = `${source} ${id}`;
      const one = { identity, subject, name: type, value: data!.credits, events: data!.events, atMs: Date.parse(time) };
      if (see(one) === 'new') taken.set(identity, one);
    }
    return { status: 204, answer: '' };
  }

  function http({ headers, body }: Asked): Answer {
    const { data } = new Webhook(secret).verify(body, headers as Record<string, string>) as {
      data: { events: OwnEvent[] };
    };
    for (const { identity, externalId, eventName, credits, events, time } of data.events) {
      const one = { identity, subject: externalId, name: eventName, value: credits, events, atMs: Date.parse(time) };
      if (see(one) === 'new') taken.set(identity, one);
    }
    return ok;
  }

  const rules = { stripe, lago, http, openmeter: cloudEvents, cloudevents: cloudEvents } satisfies Record<
    MeterKind,
    unknown
  >;

  return {
    taken,
    repeated: () => repeated,
    /** Answers a request; `during` is how long it has it before it answers. */
    async answer(asked: Asked, during?: () => Promise<void>): Promise<Answer> {
      if (kind !== 'http' && asked.headers['authorization'] !== `Bearer ${secret}`)
        return no(401, 'Invalid API Key provided');
      while (times.length > 0 && times[0]! <= now() - 1_000) times.shift();
      if (times.length >= perSecond) return { ...no(429, 'Too many requests'), retryAfter: '1' };
      times.push(now());
      const form = new URLSearchParams(kind === 'stripe' ? asked.body : '');
      const lock = `${form.get('payload[stripe_customer_id]')} ${form.get('event_name')}`;
      // One call at a time of a customer and a meter.
      if (kind === 'stripe' && busy.has(lock)) return no(429, 'lock_timeout');
      busy.add(lock);
      await during?.();
      busy.delete(lock);
      return rules[kind](asked);
    },
  };
}

type Amounts = { credits: string; events: number };
type LagoEvent = {
  transaction_id: string;
  external_subscription_id: string;
  code: string;
  timestamp: number;
  properties: Amounts;
};
type OwnEvent = { identity: string; externalId: string; eventName: string; time: string } & Amounts;
