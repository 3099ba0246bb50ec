import type { Caller } from '../../shared/contract/caller.ts';
import { ApiError } from '../../shared/contract/errors.ts';
import { formatCredits, parseCredits } from '../../shared/values/credits.ts';
import { newId } from '../../shared/values/ids.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import {
  makeModel,
  maySayUsedUp,
  mostGiven,
  type Debit,
  type Grant,
  type Hold,
  type Key,
  type Meter,
} from './model.ts';
import type { ApiRequest, Json, SimulatedApi, SimulatedVerify } from './programs.ts';
import type { Simulation } from './simulation.ts';

/** Where clients work. */
export type WorldOfWork = Pick<Simulation, 'random' | 'say' | 'nowMs' | 'passedMs'>;
/** Whose keys they are. */
export type Home = { caller: Caller; workspaceId: string };
/** Whom clients can ask; undefined while none runs. */
export type Fleet = { api(): SimulatedApi | undefined; verify(): SimulatedVerify | undefined };
/** What came of a request; undefined where no answer came, or one that leaves it open whether it was done. */
export type Asked = { body?: Json; error?: unknown } | undefined;
export type Told = { status: string; reason: string; body: string };
/** Asks for a verification; undefined where nobody can be asked. */
export type Asking = (body: Json, idempotencyKey?: string) => (() => Promise<Told>) | undefined;
/** What the other kinds of work build on. */
export type Parts = Pick<
  Work,
  'model' | 'breaks' | 'ask' | 'asked' | 'askOne' | 'verify' | 'verifyBy' | 'decideDebit'
> & {
  simulation: Simulation;
  home: Home;
  fleet: Fleet;
};

const IDEMPOTENT_FOR_MS = 30_000;
const MOST_METERS = 3;
const MOST_KEYS_OF_METER = 3;
const MOST_GRANTS = 4;

/** What clients do, and how often. */
export const workKinds: Record<string, number> = {
  verify: 24,
  verifyOnce: 10,
  verifyAgain: 8,
  hold: 6,
  capture: 5,
  release: 2,
  extend: 1,
  createMeter: 2,
  refill: 3,
  adjust: 2,
  grant: 3,
  voidGrant: 1,
  read: 1,
  createKey: 3,
  enable: 2,
  disable: 2,
  deleteKey: 1,
  rotate: 1,
};

export type Work = ReturnType<typeof makeWork>;

/** What clients do, each thing once when it is called; what they are answered is held against what they know. */
export function makeWork(simulation: WorldOfWork, { caller, workspaceId }: Home, fleet: Fleet, scale = 1) {
  const { random, say } = simulation;
  const model = makeModel();
  const repeatable: { debit: Debit; key: Key; idempotencyKey: string; sinceMs: number }[] = [];
  const broken: string[] = [];
  const asked: { request: ApiRequest; answer: Asked }[] = [];
  let requests = 0;

  function breaks(what: string): void {
    say(`BROKEN: ${what}`);
    broken.push(what);
  }

  async function ask(request: ApiRequest): Promise<Asked> {
    const one = { request, answer: undefined as Asked };
    asked.push(one);
    return (one.answer = await askApi(request));
  }

  async function askApi(request: ApiRequest): Promise<Asked> {
    const api = fleet.api();
    if (!api) return { error: new ApiError('postgres_unavailable') };
    const number = (requests += 1);
    say(`request ${number}: ${request.operationId} ${JSON.stringify(request.body ?? '')}`);
    try {
      const asked = api.handle(caller, { ...request, idempotencyKey: `request ${number}` });
      const answer = await Promise.race([asked, api.process.died.catch(() => undefined)]);
      if (!answer) return undefined;
      const { body } = answer;
      say(`request ${number} is answered`);
      return { body };
    } catch (error) {
      if (!(error instanceof ApiError)) {
        breaks(`${request.operationId} failed with ${(error as Error).stack}`);
        return undefined;
      }
      say(`request ${number} is answered ${error.code} ${error.errorName} ${(error.cause as Error)?.message ?? ''}`);
      const undone =
        error.status < 500 ||
        !['stored_not_in_force', 'stored_or_not', 'undecided', 'deadline'].includes(error.errorName);
      return undone || error.errorName === 'deadline' ? { error } : undefined;
    }
  }

  const actions = {
    async createMeter() {
      if (model.meters.length >= MOST_METERS) return;
      const micros = (200 + random.below(2_000)) * scale;
      const name = `meter ${model.meters.length + 1}`;
      const allowOverages = random.chance(0.3);
      const body = { workspaceId, externalMeterId: name, totalCredits: formatCredits(micros), allowOverages };
      const answer = await ask({ operationId: 'createBilling', body });
      if (!answer?.body || model.meters.length >= MOST_METERS) return;
      const total = { least: micros, most: micros };
      model.meters.push({
        name,
        id: answer.body.billing.id,
        total,
        allowOverages,
        grants: [],
        keys: [],
        hasLost: false,
      });
    },
    async createKey() {
      const open = model.meters.filter(({ keys }) => keys.length < MOST_KEYS_OF_METER);
      if (open.length === 0) return;
      const meter = random.pick(open);
      const answer = await ask({
        operationId: 'createKey',
        body: { workspaceId, name: 'k', externalMeterId: meter.name },
      });
      if (!answer?.body) return;
      const { id, key } = answer.body.apiKey;
      meter.keys.push({ id, text: key, meter, state: 'enabled', changes: 0, changing: false, mayBeRotated: false });
    },
    verify: () => verify(),
    verifyOnce: () => verify(newId('evt')),
    async verifyAgain() {
      const recent = repeatable.filter(
        ({ sinceMs, debit }) => simulation.passedMs() - sinceMs < IDEMPOTENT_FOR_MS && !debit.mayBeDouble,
      );
      if (recent.length === 0) return;
      const { debit, key, idempotencyKey } = random.pick(recent);
      await verifyKey(key, debit, idempotencyKey);
    },
    async hold() {
      const key = pickKey();
      if (!key) return;
      const micros = model.newAmount();
      const verifying = fleet.verify();
      if (!verifying) return;
      const expiresIn = random.pick([1, 10, 60]);
      // Until it is answered it may be held.
      const hold: Hold = {
        id: '',
        meter: key.meter,
        micros,
        endsAtMs: Infinity,
        settled: false,
      };
      model.holds.push(hold);
      const body = { key: key.text, billing: { usage: formatCredits(micros), hold: { expiresIn } } };
      const answer = await decide(
        () => verifying.verify({ caller, body, clientAddress: '192.0.2.1', idempotencyKey: undefined }),
        key,
        micros,
      );
      if (answer?.hold) Object.assign(hold, { id: answer.hold.id, endsAtMs: simulation.nowMs() + expiresIn * 1_000 });
      else if (answer) model.holds.splice(model.holds.indexOf(hold), 1);
    },
    capture: () => settleHold('capture'),
    release: () => settleHold('release'),
    async extend() {
      const hold = pickHold();
      const verifying = fleet.verify();
      if (!hold || !verifying) return;
      await verifying.holds.extend(caller, { holdId: hold.id, expiresIn: 60 }).catch(known);
    },
    async refill() {
      if (model.meters.length === 0) return;
      const meter = random.pick(model.meters);
      const micros = 1 + random.below(500);
      meter.total.most += micros;
      const body = { workspaceId, externalMeterId: meter.name, refill: formatCredits(micros) };
      const answer = await ask({ operationId: 'refillBilling', body });
      if (answer?.body) meter.total.least += micros;
      if (answer?.error) meter.total.most -= micros;
    },
    async adjust() {
      if (model.meters.length === 0) return;
      const meter = random.pick(model.meters);
      const debit = model.newDebit('adjustment', meter, model.newAmount());
      const body = { amount: formatCredits(debit.micros), reason: 'r' };
      const answer = await ask({ operationId: 'adjustBilling', params: { bid: meter.id }, body });
      if (answer?.body) decideDebit(debit, 'sure');
      if (answer?.error) decideDebit(debit, 'none');
    },
    async grant() {
      if (model.meters.length === 0) return;
      const meter = random.pick(model.meters);
      if (meter.grants.length >= MOST_GRANTS) return;
      const now = simulation.nowMs();
      const beginsAt = now + random.pick([0, 0, 5_000, 3_600_000]);
      const endsAt = random.chance(0.7) ? beginsAt + random.pick([3_000, 60_000, DAY_MS]) : undefined;
      const grant: Grant = {
        id: '',
        micros: 1 + random.below(500),
        beginsAt,
        endsAt: endsAt ?? Infinity,
        state: 'undecided',
        mayBeVoid: false,
      };
      meter.grants.push(grant);
      const body = {
        credits: formatCredits(grant.micros),
        ...(beginsAt > now && { beginsAt }),
        ...(endsAt && { expiresAt: endsAt }),
      };
      const answer = await ask({ operationId: 'createGrant', params: { bid: meter.id }, body });
      if (answer?.body) Object.assign(grant, { id: answer.body.grant.id, state: 'sure' });
      if (answer?.error) grant.state = 'none';
    },
    async voidGrant() {
      const all = model.meters.flatMap((meter) => meter.grants.map((grant) => ({ meter, grant })));
      const open = all.filter(({ grant }) => grant.state === 'sure' && !grant.mayBeVoid);
      if (open.length === 0) return;
      const { meter, grant } = random.pick(open);
      grant.mayBeVoid = true;
      const params = { bid: meter.id, gid: grant.id };
      const answer = await ask({ operationId: 'voidGrant', params, body: { reason: 'r' } });
      if (answer?.error) grant.mayBeVoid = false;
    },
    enable: () => change('enabled'),
    disable: () => change('disabled'),
    deleteKey: () => change('deleted'),
    async rotate() {
      const key = pickUnchanging();
      if (!key) return;
      await changing(key, async () => {
        key.mayBeRotated = true;
        const answer = await ask({
          operationId: 'rotateKey',
          params: { id: workspaceId, akid: key.id },
          body: { graceSeconds: 0 },
        });
        if (answer?.body) key.text = answer.body.apiKey.key;
        if (answer) key.mayBeRotated = false;
        return answer;
      });
    },
    async read() {
      if (model.meters.length === 0) return;
      await ask({ operationId: 'getBilling', params: { bid: random.pick(model.meters).id } });
    },
  };

  function pickKey(): Key | undefined {
    const keys = model.keys();
    return keys.length === 0 ? undefined : random.pick(keys);
  }

  function pickUnchanging(): Key | undefined {
    const keys = model.keys().filter(({ changing, state }) => !changing && state !== 'deleted');
    return keys.length === 0 ? undefined : random.pick(keys);
  }

  function pickHold(): Hold | undefined {
    const holds = model.holds.filter(({ id, settled }) => id !== '' && !settled);
    return holds.length === 0 ? undefined : random.pick(holds);
  }

  async function verify(idempotencyKey?: string, asking?: Asking): Promise<void> {
    const key = pickKey();
    if (!key) return;
    const debit = model.newDebit('verification', key.meter, model.newAmount());
    if (idempotencyKey) repeatable.push({ debit, key, idempotencyKey, sinceMs: simulation.passedMs() });
    await verifyKey(key, debit, idempotencyKey, asking);
  }

  function askOne(body: Json, idempotencyKey?: string): ReturnType<Asking> {
    const verifying = random.chance(0.1) ? fleet.api() : fleet.verify();
    return verifying && (() => verifying.verify({ caller, body, clientAddress: '192.0.2.1', idempotencyKey }));
  }

  /** Asks for a verification and gives the answer, if one came. */
  async function verifyBy(asking: Asking, body: Json, what: string, idempotencyKey?: string): Promise<Json> {
    const verifying = asking(body, idempotencyKey);
    const number = (requests += 1);
    say(`request ${number}: verify ${what}`);
    try {
      const decision = await verifying?.();
      if (!decision) return undefined;
      say(`request ${number}: ${decision.status} ${decision.reason}`);
      return JSON.parse(decision.body);
    } catch (error) {
      say(`request ${number}: ${known(error)}`);
      return undefined;
    }
  }

  async function verifyKey(
    key: Key,
    debit: Debit,
    idempotencyKey: string | undefined,
    asking: Asking = askOne,
  ): Promise<void> {
    const body = { key: key.text, billing: { usage: formatCredits(debit.micros) } };
    const verifying = asking(body, idempotencyKey);
    if (!verifying) return;
    const answer = await decide(verifying, key, debit.micros, idempotencyKey !== undefined);
    if (!answer) return;
    // A key that was revoked since is refused, whatever it is asked again.
    const isRefused = ['USAGE_LIMITED', 'RATE_LIMITED'].includes(answer.status);
    if (debit.state === 'sure' && isRefused && !debit.mayBeLost)
      breaks(`a verification of ${debit.micros} was VALID, and ${answer.status} when it was asked for again`);
    decideDebit(debit, answer.status === 'VALID' ? 'sure' : 'none');
  }

  function decideDebit(debit: Debit, state: 'sure' | 'none'): void {
    if (debit.state === 'sure') return;
    debit.state = state;
    debit.answeredMs = simulation.passedMs();
  }

  /** The answer of a verification, if one came; it is held against what is known of the key. */
  async function decide(verifying: () => Promise<Told>, key: Key, micros: number, isOld = false): Promise<Json> {
    const { state, changes, meter } = key;
    const fromMs = simulation.nowMs();
    const number = (requests += 1);
    say(`request ${number}: verify key ${key.id} for ${micros}`);
    let decision;
    try {
      decision = await verifying();
    } catch (error) {
      say(`request ${number}: ${known(error)}`);
      return undefined;
    }
    const { status, reason } = decision;
    const answer = JSON.parse(decision.body);
    say(`request ${number}: ${status} ${reason} ${JSON.stringify(answer.billing ?? '')}`);
    if (key.changes === changes && !key.mayBeRotated && !isOld) {
      const isOn = !['DISABLED', 'DELETED', 'INVALID', 'EXPIRED'].includes(status);
      if (state === 'enabled' && !isOn) breaks(`an enabled key was ${status} ${reason}`);
      if ((state === 'disabled' || state === 'deleted') && isOn) breaks(`a ${state} key was ${status}`);
    }
    if (status === 'USAGE_LIMITED' && !maySayUsedUp(model, meter, fromMs, simulation.nowMs()) && !isOld)
      breaks(
        `a verification of ${micros} was refused, though ${meter.total.least} were bought and at most ${model.mostTaken(meter)} taken`,
      );
    if (status === 'VALID' && answer.billing && !isOld) {
      if (!meter.allowOverages && answer.billing.availableCredits.startsWith('-'))
        breaks(`more was taken of ${meter.name} than was available: ${JSON.stringify(answer.billing)}`);
      const taken = parseCredits(answer.billing.usedCredits)! + parseCredits(answer.billing.heldCredits ?? '0')!;
      if (!meter.allowOverages && !meter.hasLost && taken > mostGiven(meter) + adjusted(meter))
        breaks(`${taken} are taken of ${meter.name}, of which at most ${mostGiven(meter)} were given`);
    }
    return { ...answer, status };
  }

  // An adjustment is booked whatever is left.
  function adjusted(meter: Meter): number {
    return model.debits
      .filter((one) => one.meter === meter && one.what === 'adjustment')
      .reduce((all, { micros }) => all + micros, 0);
  }

  async function settleHold(what: 'capture' | 'release'): Promise<void> {
    const hold = pickHold();
    const verifying = fleet.verify();
    if (!hold || !verifying) return;
    hold.settled = true;
    const debit = what === 'capture' ? model.newDebit('capture', hold.meter, hold.micros) : undefined;
    const error = await settleOnce(verifying, hold, what, debit);
    if (!error) return;
    if (debit && error.status < 500) decideDebit(debit, 'none');
    // It may be tried again.
    const again = error.status >= 500 && random.chance(0.5) && fleet.verify();
    if (again) await settleOnce(again, hold, what, debit);
  }

  /** Gives the error where it failed. */
  async function settleOnce(
    { holds }: SimulatedVerify,
    hold: Hold,
    what: 'capture' | 'release',
    debit: Debit | undefined,
  ): Promise<ApiError | undefined> {
    try {
      if (what === 'capture') await holds.capture(caller, { holdId: hold.id, usage: formatCredits(hold.micros) });
      else await holds.release(caller, { holdId: hold.id });
      if (debit) decideDebit(debit, 'sure');
      return undefined;
    } catch (error) {
      known(error);
      return error as ApiError;
    }
  }

  /** What is said of an error that clients expect; any other breaks a promise. */
  function known(error: unknown): string {
    if (error instanceof ApiError) return `${error.code} ${error.errorName}`;
    breaks(`a request failed with ${(error as Error).stack}`);
    return String(error);
  }

  async function change(to: 'enabled' | 'disabled' | 'deleted'): Promise<void> {
    const key = pickUnchanging();
    if (!key) return;
    const params = { id: workspaceId, akid: key.id };
    await changing(
      key,
      () =>
        to === 'deleted'
          ? ask({ operationId: 'deleteKey', params })
          : ask({ operationId: 'updateKey', params, body: { enabled: to === 'enabled' } }),
      to,
    );
  }

  async function changing(
    key: Key,
    work: () => Promise<Asked>,
    to?: 'enabled' | 'disabled' | 'deleted',
  ): Promise<void> {
    const before = key.state;
    key.changing = true;
    key.changes += 1;
    key.state = 'unclear';
    const answer = await work();
    key.changes += 1;
    key.changing = false;
    if (answer?.body) key.state = to ?? before;
    if (answer?.error) key.state = before;
  }

  return {
    model,
    workspaceId,
    broken,
    breaks,
    actions,
    ask,
    /** All that the api was asked for, with what came of it. */
    asked,
    askOne,
    verify,
    verifyBy,
    known,
    decideDebit,
    /** Redis has lost what was answered since a moment, and is in no book. */
    noteLoss(sinceMs: number, isBooked: (debit: Debit) => boolean): void {
      for (const debit of model.debits) {
        debit.mayBeDouble = true;
        if (debit.state !== 'none' && debit.answeredMs >= sinceMs && !isBooked(debit)) debit.mayBeLost = true;
      }
      // What is held may be lost or found again.
      for (const meter of model.meters) meter.hasLost = true;
    },
  };
}
