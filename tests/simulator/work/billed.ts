import type { Outcome } from '../../../apps/webhooks/call.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import { formatCredits, parseSignedCredits } from '../../../shared/values/credits.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { makeMeterReceiver } from '../../helpers/meter-receivers.ts';
import type { Json } from '../programs.ts';
import type { Process } from '../simulation.ts';
import type { Parts } from '../work.ts';
import { change, setting, type Setting } from './settings.ts';

// What bills are made of: meter destinations of the workspace whose usage is random, and a workspace whose records have plans, and are
// paid for. Of credits there a micro-credit is a cent.

type Kind = (typeof KINDS)[number];
type Destination = { id: string; kind: Kind; receiver: ReturnType<typeof makeMeterReceiver>; troubles: number };
type Paying = { id: string; meter: string; key: string; plan: Setting<string | null> };
type Plan = { id: string; appliedVersion: number };
type Call = { url: string; headers: Record<string, string>; body: string };
type Payment = { name: string; of: Paying; amount: number; refunds: number[]; told: Set<string> };
/** What is there from the beginning. */
export type Billed = { workspaceId: string; sources: string[]; plans: Plan[]; records: Paying[] };
/** Asks Postgres, as no program does. */
type Read = <Row>(query: string) => Promise<Row[]>;
type ProofOf = (mid: string, month: string) => Promise<Json>;

/** How often they are. */
export const billedKinds = {
  addDestination: 1,
  leaveOut: 0.5,
  tellPayment: 4,
  givePlan: 2,
  changePlan: 1,
  useGiven: 2,
};

const KINDS = ['stripe', 'lago', 'cloudevents'] as const;
const SECRET = 'sk_test';
const UNIT_MICROS = 40;
const MOST_DESTINATIONS = 2;
const MOST_PAYMENTS = 6;
const WITHIN_MS = 10_000;
// How a destination answers the first requests, some of which it takes: most is sent once faults have ended.
const MOST_TROUBLES = 4;
const TROUBLES: [takes: boolean, outcome: Omit<Outcome, 'durationMs'>][] = [
  [false, { status: 429, answer: 'slower', retryAfter: '2' }],
  [false, { status: 401, answer: 'who are you' }],
  [false, { error: 'connect ECONNREFUSED', isUnsent: true }],
  [false, { status: 500, answer: 'no' }],
  [true, { status: 502, answer: 'no' }],
  [true, { error: 'socket hang up' }],
];

/** Makes what each seed begins with. */
export async function beginBilled(ask: Parts['ask']): Promise<Billed> {
  const make = async (operationId: string, body: object, params = {}) =>
    (await ask({ operationId, params, body }))!.body;
  const { id: workspaceId } = (await make('createWorkspace', { name: 'billed' })).workspace;
  const rules = [{ event: 'invoice.paid', currency: 'usd', creditsPerUnit: '0.000001', expiresAfterDays: 90 }];
  const sources: string[] = [];
  const plans: Plan[] = [];
  const records: Paying[] = [];
  for (const n of [1, 2]) {
    const source = { workspaceId, kind: 'stripe', name: 's', rules, secret: 'whsec_s' };
    sources.push((await make('createPaymentSource', source)).source.id);
    const schedules = [scheduleOf(100 * n, 'day')];
    const given = { name: `plan ${n}`, grants: [{ credits: formatCredits(n) }], schedules };
    plans.push({ id: (await make('createPlan', given, { id: workspaceId })).plan.id, appliedVersion: 1 });
    const meter = `cus_${n}`;
    const { id } = (await make('createBilling', { workspaceId, externalMeterId: meter })).billing;
    const { key } = (await make('createKey', { workspaceId, name: 'k', externalMeterId: meter })).apiKey;
    records.push({ id, meter, key, plan: setting<string | null>(null) });
  }
  return { workspaceId, sources, plans, records };
}

function scheduleOf(micros: number, every: 'day' | 'week') {
  return { credits: formatCredits(micros), every };
}

export function makeBilled({ simulation, home, model, ask, askOne, verifyBy, breaks }: Parts, begun: Billed) {
  const { random } = simulation;
  const { workspaceId, sources, plans, records } = begun;
  const destinations: Destination[] = [];
  const payments: Payment[] = [];
  // All that a seed uses.
  const startsAt = new Date(Math.floor(simulation.nowMs() / DAY_MS - 2) * DAY_MS).toISOString();

  const actions = {
    async addDestination() {
      const kind = random.pick(KINDS);
      if (destinations.length >= MOST_DESTINATIONS) return;
      const url = `https://meters.example.com/${destinations.length}`;
      const body = { workspaceId: home.workspaceId, kind, name: kind, url, secret: SECRET, startsAt };
      const receiver = makeMeterReceiver(kind, { now: simulation.nowMs, secret: SECRET });
      const made = { id: '', kind, receiver, troubles: MOST_TROUBLES };
      destinations.push(made);
      const unit = kind === 'stripe' && { unit: formatCredits(UNIT_MICROS) };
      const answer = await ask({ operationId: 'createMeterDestination', body: { ...body, ...unit } });
      made.id = answer?.body?.destination.id ?? '';
    },
    /** One of the records is not billed from now on. */
    async leaveOut() {
      const known = destinations.filter(({ id }) => id !== '');
      if (known.length === 0) return;
      const body = { externalIds: { [random.pick(known).id]: null } };
      await ask({ operationId: 'updateBilling', params: { bid: random.pick(model.meters).id }, body });
    },
    async tellPayment() {
      if (payments.length < MOST_PAYMENTS && random.chance(0.4)) {
        const amount = 100 + random.below(900);
        const part = random.below(amount);
        const refunds = random.pick([[], [part], [part, amount], [part, part + random.below(amount - part)]]);
        payments.push({ name: `p${payments.length}`, of: random.pick(records), amount, refunds, told: new Set() });
      }
      if (payments.length === 0) return;
      const payment = random.pick(payments);
      await tell(payment, random.pick(newsOf(payment)));
    },
    async givePlan() {
      const { id: bid, plan } = random.pick(records);
      const planId = random.pick([...plans.map(({ id }) => id), null]);
      const when = random.pick(['now', 'now', 'atPeriodEnd']);
      const request = { operationId: 'updateBilling', params: { bid }, body: { planId, when } };
      if (when === 'now') return change(plan, planId, () => ask(request));
      if (plan.changes % 2 === 1) return;
      plan.may = [...plan.may, planId];
      plan.changes += 1;
      await ask(request);
      plan.changes += 1;
    },
    async changePlan() {
      const plan = random.pick(plans);
      const apply = random.pick(['new', 'all']);
      const schedules = [scheduleOf(1 + random.below(300), random.pick(['day', 'day', 'week']))];
      const params = { id: workspaceId, pid: plan.id };
      const answer = await ask({ operationId: 'updatePlan', params, body: { schedules, apply } });
      if (answer?.body && apply === 'all')
        plan.appliedVersion = Math.max(plan.appliedVersion, answer.body.plan.version);
    },
    async useGiven() {
      const { key } = random.pick(records);
      const body = { key, billing: { usage: formatCredits(1 + random.below(150)) } };
      const status = (await verifyBy(askOne, body, 'what was given'))?.status ?? 'VALID';
      if (!['VALID', 'USAGE_LIMITED'].includes(status)) breaks(`a key of a plan's record was ${status}`);
    },
  };

  /** All that Stripe tells of a payment, each by its name. */
  function newsOf({ name, of: { meter }, amount, refunds }: Payment): [string, string, object][] {
    const paid = { id: `in_${name}`, amount_paid: amount, currency: 'usd', customer: meter };
    return [
      ['paid', 'invoice.paid', paid],
      ['linked', 'invoice_payment.paid', { invoice: paid.id, payment: { payment_intent: `pi_${name}` } }],
      ...refunds.map((refunded, i): [string, string, object] => {
        const charge = { id: `ch_${name}`, payment_intent: `pi_${name}`, amount_refunded: refunded };
        return [`refund ${i}`, 'charge.refunded', charge];
      }),
    ];
  }

  async function tell({ told }: Payment, [name, type, object]: [string, string, object]): Promise<void> {
    const created = Math.floor(simulation.nowMs() / 1000);
    const params = { pid: random.pick(sources) };
    const answer = await ask({ operationId: 'hearPayment', params, body: { type, created, data: { object } } });
    if (answer?.body) told.add(name);
  }

  /** What a process has of the meters: answers, and none within its time. */
  function connect(process: Process) {
    let calls = 0;
    return async ({ url, ...call }: Call): Promise<Outcome> => {
      const destination = destinations[indexOf(url)]!;
      const execute = async (): Promise<Outcome> => {
        const isTroubled = destination.troubles > 0 && random.chance(0.5);
        if (isTroubled) destination.troubles -= 1;
        const [takes, trouble] = isTroubled ? random.pick(TROUBLES) : [true];
        const answer = takes ? await destination.receiver.answer(call) : undefined;
        return { ...(trouble ?? answer), durationMs: 1 };
      };
      const lane = `${process.name} meters ${(calls += 1)}`;
      const asked = process.ask({ server: 'receiver', lane, label: `post ${url}`, execute });
      return withTimeout(process.clock, WITHIN_MS, asked).catch((error: Error): Outcome => {
        if (error.message.includes('was another event')) breaks(error.message);
        return { error: error.message, durationMs: 1 };
      });
    };
  }

  /** Stripe tells what was not taken yet; gives whether all is. */
  async function tellAll(): Promise<boolean> {
    let isTaken = true;
    for (const payment of payments)
      for (const news of newsOf(payment)) {
        if (!payment.told.has(news[0])) await tell(payment, news);
        isTaken &&= payment.told.has(news[0]);
      }
    return isTaken;
  }

  /** Once nothing is due: a payment made its credits once, and what was refunded is gone; a plan gives each period once, as its version says. */
  async function provePaid(read: Read): Promise<void> {
    const all = await read<Json>(`
      select p.object_id, p.state, coalesce(sum(g.amount_micros), 0)::bigint as granted,
             coalesce(sum(g.amount_micros) filter (where g.voided_at is null), 0)::bigint as standing
      from payments p left join grants g on g.metadata ->> 'paymentId' = p.id group by p.id`);
    for (const { name, amount, refunds } of payments) {
      const rows = all.filter(({ objectId }) => [`in_${name}`, `pi_${name}`].includes(objectId));
      const [{ granted, standing } = { granted: -1, standing: -1 }] = rows;
      if (rows.length !== 1 || granted > amount || standing !== amount - Math.max(0, ...refunds))
        breaks(`a payment of ${amount}, of which ${refunds.join()} was given back, became ${JSON.stringify(rows)}`);
    }
    if (all.length > payments.length) breaks(`there are payments that nobody made: ${JSON.stringify(all)}`);
  }

  async function provePlans(read: Read): Promise<void> {
    const nowMs = simulation.nowMs();
    const twice = await read<Json>(`
      select a.id, b.id as other from grants a join grants b on b.billing_id = a.billing_id and b.id > a.id and b.plan_id is not null
      where a.plan_id is not null and a.voided_at is null and b.voided_at is null
        and (a.schedule_id is null) = (b.schedule_id is null)
        and (case when a.schedule_id is null then a.plan_id = b.plan_id else a.begins_at < b.expires_at and b.begins_at < a.expires_at end)`);
    if (twice.length > 0) breaks(`plans gave twice: ${JSON.stringify(twice)}`);
    const rows = await read<Json>(`
      select b.id, b.plan_id, b.plan_version, b.next_plan_at, v.settings,
             (select json_agg(json_build_object('micros', s.amount_micros, 'every', s.every, 'plan', s.plan_id)) from grant_schedules s
              where s.billing_id = b.id and s.deleted_at is null) as schedules,
             (select count(*)::int from grants g where g.billing_id = b.id and g.schedule_id is not null and g.voided_at is null
              and g.begins_at <= ${nowMs} and g.expires_at > ${nowMs}) as running
      from billing_records b left join plan_versions v on v.plan_id = b.plan_id and v.version = b.plan_version
      where b.workspace_id = '${workspaceId}'`);
    for (const { id, planId, planVersion, nextPlanAt, settings, schedules, running } of rows) {
      const { plan } = records.find((one) => one.id === id)!;
      const said = JSON.stringify({ planId, planVersion, nextPlanAt, settings, schedules, running });
      if (!plan.may.includes(planId)) breaks(`a record has ${said}, and was given ${plan.may.join(' or ')}`);
      if (nextPlanAt !== null && nextPlanAt <= nowMs)
        breaks(`a plan was to change at ${nextPlanAt}, and did not: ${said}`);
      if (planVersion < (plans.find((one) => one.id === planId)?.appliedVersion ?? 0))
        breaks(`a version is not applied: ${said}`);
      const wantedOf = ({ credits, every }: Json) => [planId, parseSignedCredits(credits), every];
      const wanted = (settings?.schedules ?? []).map(wantedOf);
      const standing = (schedules ?? []).map(({ plan: of, micros, every }: Json) => [of, micros, every]);
      if (JSON.stringify(wanted) !== JSON.stringify(standing) || running !== wanted.length)
        breaks(`a record does not stand as its plan says: ${said}`);
    }
  }

  /** What failed is put right, and sent again by whoever has looked there; gives what of the hours before a moment still waits. */
  async function sendFailed(read: Read, endMs: number): Promise<string> {
    const failed = await read<Json>(
      `select id, destination_id, billing_id from meter_events where state = 'FAILED' limit 200`,
    );
    const all = await read<Json>(`select id from meter_destinations`);
    for (const bid of new Set(failed.map(({ billingId }) => billingId))) {
      const externalIds = Object.fromEntries(all.map(({ id }) => [id, `cus_${bid}`]));
      await ask({ operationId: 'updateBilling', params: { bid }, body: { externalIds } });
    }
    for (const [mid, some] of Map.groupBy(failed, ({ destinationId }) => destinationId)) {
      const body = { eventIds: some.map(({ id }) => id) };
      await ask({ operationId: 'redeliverMeterEvents', params: { mid }, body });
    }
    const [waiting] = await read<Json>(`
      select (select count(*) from meter_events where state in ('WAITING', 'FAILED')) || ' events, '
          || (select count(*) from meter_days where planned_to < to_timestamp(${endMs / 1000})) || ' days' as left`);
    return waiting.left === '0 events, 0 days' ? '' : waiting.left;
  }

  async function readProofs(read: Read, proofOf: ProofOf): Promise<Map<string, Json>> {
    const month = new Date(simulation.nowMs()).toISOString().slice(0, 7);
    const proofs = new Map<string, Json>();
    for (const { id } of await read<Json>('select id from meter_destinations'))
      proofs.set(id, (await proofOf(id, month)).proof);
    return proofs;
  }

  /** What proofs still wait for: a clock that was set back is before what was planned. */
  async function pending(read: Read, proofOf: ProofOf): Promise<string> {
    const proofs = [...(await readProofs(read, proofOf)).values()];
    return proofs
      .filter(({ status }) => status === 'PENDING')
      .map((one) => JSON.stringify(one))
      .join();
  }

  /** Once nothing waits: each destination has what was used, once, but for what is left out, and rests. */
  async function proveMeters(read: Read, days: string[], proofOf: ProofOf) {
    const used = new Map<string, number>();
    for (const [id, , name, micros] of days.map((line) => line.split(' ')))
      if (id !== '') add(used, `${id} ${name}`, Number(micros));
    const names = await read<Json>(
      `select id, external_meter_id as name from billing_records where workspace_id = '${home.workspaceId}'`,
    );
    const kept = await read<Json>(`
      select destination_id, billing_id || ' ' || usage_name as series, micros, state
      from (select destination_id, billing_id, usage_name, micros, state from meter_events where state = 'LEFT_OUT'
            union all select destination_id, billing_id, usage_name, micros, 'RESTS' from meter_rests) of_both`);
    for (const { micros } of kept.filter(({ state }) => state === 'RESTS'))
      if (micros >= UNIT_MICROS) breaks(`${micros} rest of units of ${UNIT_MICROS}`);
    const proofs = await readProofs(read, proofOf);
    for (const { id, url } of await read<Json>('select id, url from meter_destinations')) {
      const { kind, receiver } = destinations[indexOf(url)]!;
      const got = new Map<string, number>();
      for (const { subject, name, value } of receiver.taken.values()) {
        const record = names.find((one) => [one.name, `cus_${one.id}`].includes(subject));
        add(got, `${record.id} ${name}`, kind === 'stripe' ? Number(value) * UNIT_MICROS : parseSignedCredits(value)!);
      }
      for (const { series, micros } of kept.filter(({ destinationId }) => destinationId === id))
        add(got, series, micros);
      for (const series of new Set([...used.keys(), ...got.keys()]))
        if ((used.get(series) ?? 0) !== (got.get(series) ?? 0))
          breaks(
            `${kind} was told ${got.get(series)} of ${series} with what is left out and rests, of ${used.get(series)}`,
          );
      const proof = proofs.get(id)!;
      if (proof.status !== 'EXACT') breaks(`${kind} is not proved: ${JSON.stringify(proof)}`);
    }
  }

  return {
    actions,
    connect,
    hasMeters: () => destinations.length > 0,
    tellAll,
    async prove(read: Read): Promise<void> {
      await provePaid(read);
      await provePlans(read);
    },
    sendFailed,
    pending,
    proveMeters,
  };
}

function indexOf(url: string): number {
  return Number(url.split('/').at(-1));
}

function add(sums: Map<string, number>, name: string, micros: number): void {
  sums.set(name, (sums.get(name) ?? 0) + micros);
}
