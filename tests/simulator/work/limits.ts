import { formatCredits } from '../../../shared/values/credits.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { newMeter, type Debit, type Meter } from '../model.ts';
import type { Json } from '../programs.ts';
import type { Asking } from '../clients.ts';
import type { Parts } from '../work.ts';
import { change, setting, type Setting } from './settings.ts';

// Keys and billing records with limits over windows. What a limit has counted is known from below and from above: what was VALID for
// sure, and what may have been.

type Limit = {
  name: string;
  unit: 'requests' | 'credits';
  /** Requests, or micro-credits. */
  limit: number;
  per: 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month';
  timezone?: string;
  shadow: boolean;
  /** Since when it surely counts, and since when with this limit. */
  countsSince: number;
  unchangedSince: number;
};
type Owner = { on: 'key' | 'billing'; limits: Setting<Limit[]>; takes: Take[] };
/** A call that counts, from when it was asked for until it was answered, by the time that may have passed and by the clock. */
type Take = {
  micros: number;
  from: Moment;
  to?: Moment;
  state: 'sure' | 'maybe' | 'none';
  /** A sliding window, or any, has lost it. */
  isLost: 'no' | 'sliding' | 'all';
  debit: Debit;
};
type Moment = { passedMs: number; atMs: number };
type Limited = { id: string; text: string; own: Owner; record?: { id: string; own: Owner; meter: Meter } };
/** All of them. */
export type LimitedKeys = { keys: Limited[]; unmetered: Meter };

/** How often they are. */
export const limitKinds = { verifyLimited: 8, changeLimits: 1.5 };

const SLIDING: Partial<Record<Limit['per'], number>> = { second: 1_000, minute: 60_000, hour: 3_600_000 };
const ZONES = ['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'Australia/Lord_Howe'];

export function makeLimits(parts: Parts, { keys, unmetered }: LimitedKeys) {
  const { simulation, home, ask, askOne, verifyBy, model, breaks, decideDebit } = parts;
  const { random } = simulation;
  let named = 0;
  let lastLoss = -Infinity;
  let wasFull = false;
  const moment = (): Moment => ({ passedMs: simulation.mostPassedMs(), atMs: simulation.nowMs() });

  async function verify(asking: Asking, key = random.pick(keys)): Promise<void> {
    const owners = [key.own, ...(key.record ? [key.record.own] : [])];
    const micros = model.newAmount();
    const debit = model.newDebit('verification', key.record?.meter ?? unmetered, micros);
    const take: Take = { micros, from: moment(), state: 'maybe', isLost: 'no', debit };
    const before = owners.map(({ limits }) => limits.changes);
    for (const { takes } of owners) takes.push(take);
    const body = { key: key.text, billing: { usage: formatCredits(micros) } };
    const answer = await verifyBy(asking, body, `limited ${key.id} for ${micros}`);
    take.to = moment();
    // Without room for its event a key that is not metered goes on.
    if (wasFull && !key.record) debit.mayBeLost = true;
    if (!answer) return;
    const { status, reason, limitedBy } = answer;
    decideDebit(debit, status === 'VALID' ? 'sure' : 'none');
    take.state = status === 'VALID' ? 'sure' : 'none';
    const stable = owners.filter(({ limits }, i) => limits.changes === before[i]);
    if (status === 'VALID') for (const owner of stable) holdBelow(owner, take);
    else if (!['RATE_LIMIT', 'LIMIT_REACHED'].includes(reason)) breaks(`a key with limits was ${status} ${reason}`);
    else {
      const owner = stable.find(({ on }) => on === limitedBy.on);
      if (owner) holdAbove(owner, limitedBy.name, take);
    }
  }

  /** No more was VALID than each limit lets through. */
  function holdBelow({ limits, takes }: Owner, now: Take): void {
    for (const limit of limits.may[0]!) {
      const all = limits.may.map((list) => list.find(({ name }) => name === limit.name));
      if (!all.every((one) => one && !one.shadow)) continue;
      const most = Math.max(...all.map((one) => one!.limit));
      const sure = takes.filter(
        ({ state, from, isLost }) => state === 'sure' && isLost !== 'all' && from.passedMs > limit.countsSince,
      );
      const slidingMs = SLIDING[limit.per];
      if (slidingMs) {
        const kept = sure.filter(({ isLost, from }) => isLost === 'no' && from.passedMs > limit.unchangedSince);
        for (const { from } of kept) {
          const since = kept.filter((one) => one.from.passedMs >= from.passedMs);
          const counted = sum(limit, since);
          const let_ = most + (most * (now.to!.passedMs - from.passedMs)) / slidingMs;
          if (counted > let_)
            return breaks(`${counted} were VALID since ${from.passedMs}, of ${most} ${limit.unit} a ${limit.per}`);
        }
      } else {
        const window = windowsOf(limit, now);
        if (window.size > 1) continue;
        // What was asked for before the clock was set back may be counted in a window to come.
        const kept = sure.filter(
          (one) => one.from.passedMs > simulation.setBackAtMs() && windowsOf(limit, one).isSubsetOf(window),
        );
        const counted = sum(limit, kept);
        if (counted > most)
          return breaks(`${counted} were VALID in ${[...window].join()}, of ${most} ${limit.unit} a ${limit.per}`);
      }
    }
  }

  /** A limit refuses only what may be beyond it. */
  function holdAbove({ limits, takes }: Owner, name: string, now: Take): void {
    const all = limits.may.flatMap((list) => list.filter((one) => one.name === name));
    if (all.length === 0) return breaks(`a call was refused by the limit ${name}, which there is not`);
    if (all.every(({ shadow }) => shadow)) return breaks(`a call was refused by the limit ${name}, which only watches`);
    // Windows that have begun may go on.
    if (simulation.setBackAtMs() > -Infinity) return;
    const [limit] = all as [Limit];
    const most = Math.min(...all.map((one) => one.limit));
    const may = takes.filter((one) => one !== now && one.state !== 'none');
    const slidingMs = SLIDING[limit.per];
    let counted = 0;
    if (slidingMs) {
      // What Redis lost, and what a changed limit has counted, counts for longer.
      const settled = now.from.passedMs - 2 * slidingMs;
      if (Math.max(lastLoss, ...all.map(({ unchangedSince }) => unchangedSince)) > settled) return;
      const endOf = ({ to }: Take) => Math.min(to?.atMs ?? Infinity, now.from.atMs);
      let since = -Infinity;
      for (const one of may.toSorted((a, b) => endOf(a) - endOf(b))) {
        counted = Math.max(0, counted - (most * (endOf(one) - since)) / slidingMs) + sum(limit, [one]);
        since = endOf(one);
      }
      counted = Math.max(0, counted - (most * (now.from.atMs - since)) / slidingMs);
    } else {
      const windows = windowsOf(limit, now);
      const inThem = may.filter((one) => !windowsOf(limit, one).isDisjointFrom(windows));
      counted = sum(limit, inThem);
    }
    // Limits round to their own disadvantage.
    if (counted + sum(limit, [now]) < most * 0.999)
      breaks(
        `a call was refused by ${name}, which has counted ${counted} at most of ${most} ${limit.unit} a ${limit.per}`,
      );
  }

  async function changeLimits(): Promise<void> {
    const key = random.pick(keys);
    const { own } = key.record && random.chance(0.5) ? key.record : key;
    const { limits } = own;
    const passedMs = simulation.mostPassedMs();
    const [known] = limits.may as [Limit[]];
    const at = random.below(known.length);
    const old = known[at]!;
    const kind = random.pick(['more', 'less', 'watching', 'another'] as const);
    const to = known.map((one) => ({ ...one }));
    to[at] =
      kind === 'another'
        ? newLimit(old.unit)
        : kind === 'watching'
          ? { ...old, shadow: !old.shadow, unchangedSince: passedMs }
          : { ...old, limit: Math.ceil(old.limit * (kind === 'more' ? 2 : 0.5)), unchangedSince: passedMs };
    const isUnsure = limits.may.length > 1;
    const body = { limits: to.map(bodyOf) };
    await change(limits, to, async () => {
      const answer = await ask(
        own.on === 'key'
          ? { operationId: 'updateKey', params: { id: home.workspaceId, akid: key.id }, body }
          : { operationId: 'updateBilling', params: { bid: key.record!.id }, body },
      );
      const now = simulation.mostPassedMs();
      // It counts from here on; what was there before, and is there still, goes on.
      for (const one of to) {
        if (isUnsure || one.countsSince === Infinity) one.countsSince = now;
        if (isUnsure || one.unchangedSince >= passedMs) one.unchangedSince = now;
      }
      return answer;
    });
  }

  function newLimit(unit: Limit['unit']): Limit {
    const per = random.pick(['second', 'minute', 'hour', 'day', 'week', 'month'] as const);
    return {
      name: `limit ${(named += 1)}`,
      unit,
      limit: unit === 'requests' ? 1 + random.below(4) : 50 + random.below(250),
      per,
      ...(!SLIDING[per] && { timezone: random.pick(ZONES) }),
      shadow: false,
      countsSince: Infinity,
      unchangedSince: Infinity,
    };
  }

  return {
    verify,
    actions: {
      async verifyLimited() {
        const key = random.pick(keys);
        await Promise.all(Array.from({ length: 1 + random.below(3) }, () => verify(askOne, key)));
      },
      changeLimits,
    },
    noteFull: () => void (wasFull = true),
    /** Redis has lost what was answered since a moment; emptied, it gets what the books have. */
    noteLoss(sinceMs: number, isBooked: (debit: Debit) => boolean): void {
      lastLoss = simulation.mostPassedMs();
      for (const take of new Set(keys.flatMap(({ own, record }) => [...own.takes, ...(record?.own.takes ?? [])]))) {
        const isKept = sinceMs < 0 && isBooked(take.debit);
        if (take.debit.answeredMs >= sinceMs && take.isLost !== 'all') take.isLost = isKept ? 'sliding' : 'all';
      }
    },
  };
}

/** Makes those that each seed begins with. */
export async function beginLimits(ask: Parts['ask'], workspaceId: string): Promise<LimitedKeys> {
  const unmetered = meterOf('', 'no record');
  const make = async (limits: Limit[], externalMeterId?: string) => {
    const body = {
      workspaceId,
      name: 'limited',
      ...(externalMeterId && { externalMeterId }),
      limits: limits.map(bodyOf),
    };
    const answer = await ask({ operationId: 'createKey', body });
    const { id, key } = answer!.body.apiKey;
    return { id, text: key, own: { on: 'key' as const, limits: setting(limits), takes: [] } };
  };
  const ofRecord = [
    first('hourly', 'credits', 150, 'hour'),
    first('monthly', 'credits', 300, 'month', 'America/New_York'),
  ];
  const externalMeterId = 'limited';
  const body = { workspaceId, externalMeterId, totalCredits: '1', allowOverages: true, limits: ofRecord.map(bodyOf) };
  const { id } = (await ask({ operationId: 'createBilling', body }))!.body.billing;
  const own: Owner = { on: 'billing', limits: setting(ofRecord), takes: [] };
  const record = { id, own, meter: meterOf(id, externalMeterId) };
  return {
    keys: [
      await make([first('burst', 'requests', 2, 'minute'), first('daily', 'requests', 4, 'day', 'Europe/Berlin')]),
      await make([first('second', 'requests', 1, 'second'), first('weekly', 'credits', 250, 'week', 'Asia/Kathmandu')]),
      { ...(await make([first('weekly', 'requests', 4, 'week', 'Australia/Lord_Howe')], externalMeterId)), record },
      { ...(await make([first('daily', 'credits', 200, 'day')], externalMeterId)), record },
    ],
    unmetered,
  };
}

function first(name: string, unit: Limit['unit'], limit: number, per: Limit['per'], timezone?: string): Limit {
  return { name, unit, limit, per, ...(timezone && { timezone }), shadow: false, countsSince: 0, unchangedSince: 0 };
}

function meterOf(id: string, name: string): Meter {
  return { ...newMeter(id, name, setting({ allowOverages: true, capMicros: Infinity })), wasUnbounded: true };
}

function bodyOf(limit: Limit): Json {
  const { countsSince: _, unchangedSince: __, ...of } = limit;
  return { ...of, limit: of.unit === 'requests' ? of.limit : formatCredits(of.limit) };
}

function sum({ unit }: Limit, takes: Take[]): number {
  return unit === 'requests' ? takes.length : takes.reduce((all, { micros }) => all + micros, 0);
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** The windows of the calendar in which a call may be. */
function windowsOf({ per, timezone = 'UTC' }: Limit, { from, to }: Take): Set<string> {
  if (!formats.has(timezone))
    formats.set(timezone, new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, dateStyle: 'short' }));
  const windowAt = (atMs: number) => {
    const day = formats.get(timezone)!.format(atMs);
    if (per === 'week') return `week ${Math.floor((Date.parse(day) / DAY_MS + 3) / 7)}`;
    return per === 'month' ? day.slice(0, 7) : day;
  };
  return new Set([from, to ?? from].map(({ atMs }) => windowAt(atMs)));
}
