import { ApiError } from '../../shared/contract/errors.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { newId } from '../../shared/values/ids.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import {
  amountsOf,
  faultOfAmounts,
  leastGiven,
  makeModel,
  mostLost,
  maySayUsedUp,
  newMeter,
  stateOfKey,
  type Debit,
  type Grant,
  type Key,
  type KeyState,
} from './model.ts';
import type { ApiRequest, Asked, Json } from './programs.ts';
import type { Simulation } from './simulation.ts';
import { answered, type Asking, type Fleet, type Home, type Decided } from './clients.ts';
import { change as changeSetting, isSurely, setting } from './work/settings.ts';

/** What the other kinds of work build on. */
export type Parts = Work & { simulation: Simulation; home: Home; fleet: Fleet };

const IDEMPOTENT_FOR_MS = 30_000;
const MOST_SET_BACK_MS = 60_000;
const MOST_METERS = 3;
const MOST_KEYS_OF_METER = 3;
const MOST_GRANTS = 4;
const MOST_TRIES = 4;
// What had ended by then stays over.
const HELD_AGAIN_MS = 5_000;

const holdKinds = {
  hold: 7,
  capture: 4,
  captureOther: 2,
  captureAgain: 2,
  captureLate: 1,
  release: 2,
  extend: 1,
};
/** What clients do, and how often. */
export const workKinds: Record<string, number> = {
  verify: 24,
  verifyOnce: 10,
  verifyAgain: 8,
  verifyEnded: 1,
  ...holdKinds,
  createMeter: 2,
  refill: 3,
  adjust: 2,
  bound: 1.5,
  grant: 3,
  voidGrant: 1,
  read: 1,
  createKey: 3,
  enable: 2,
  disable: 2,
  changeTwice: 2,
  deleteKey: 1,
  rotate: 1,
};

export type Work = ReturnType<typeof makeWork>;

/** What clients do, each thing once when it is called; what they are answered is held against what they know. */
export function makeWork(simulation: Simulation, { caller, workspaceId, meters = [] }: Home, fleet: Fleet) {
  const { random, say } = simulation;
  const model = makeModel(simulation.nowMs, structuredClone(meters));
  const repeatable: { debit: Debit; key: Key; idempotencyKey: string }[] = [];
  const broken: string[] = [];
  const asked: { request: ApiRequest; answer: Asked }[] = [];
  let requests = 0;
  let setBackMs = -Infinity;

  function breaks(what: string): void {
    say(`BROKEN: ${what}`);
    broken.push(what);
  }

  async function ask(request: ApiRequest): Promise<Asked> {
    const one = { request, answer: undefined as Asked };
    asked.push(one);
    return (one.answer = await askApi(request));
  }

  /** Asks again with the same key where no answer came, or one that leaves it open whether it was done; undefined where that stays open. */
  async function askApi(request: ApiRequest): Promise<Asked> {
    const idempotencyKey = `request ${(requests += 1)}`;
    say(`${idempotencyKey}: ${request.operationId} ${JSON.stringify(request.body ?? '')}`);
    let answer = await askOnce({ ...request, idempotencyKey });
    for (let tries = 1; !answer && tries < MOST_TRIES && random.chance(0.7); tries++) {
      say(`${idempotencyKey} is repeated`);
      const again = await askOnce({ ...request, idempotencyKey });
      // An error says nothing of the tries before.
      if (again?.body) answer = again;
    }
    return answer;
  }

  async function askOnce(request: ApiRequest): Promise<Asked> {
    const api = fleet.api();
    if (!api) return { error: new ApiError('postgres_unavailable') };
    const name = request.idempotencyKey;
    try {
      const { body } = await answered(api.process, api.handle(caller, request));
      say(`${name} is answered`);
      return { body };
    } catch (error) {
      if (!(error instanceof ApiError)) {
        breaks(`${request.operationId} failed with ${(error as Error).stack}`);
        return undefined;
      }
      say(`${name} is answered ${error.code} ${error.errorName} ${(error.cause as Error)?.message ?? ''}`);
      const isOpen = ['stored_not_in_force', 'stored_or_not', 'undecided'].includes(error.errorName);
      return isOpen ? undefined : { error };
    }
  }

  const actions = {
    async createMeter() {
      if (model.meters.length >= MOST_METERS) return;
      const micros = random.pick([50, 200, 2_000]) + random.below(200);
      const name = `meter ${model.meters.length + 1}`;
      const allowOverages = random.chance(0.3);
      const body = { workspaceId, externalMeterId: name, totalCredits: formatCredits(micros), allowOverages };
      const answer = await ask({ operationId: 'createBilling', body });
      if (!answer?.body || model.meters.length >= MOST_METERS) return;
      const bounds = setting({ allowOverages, capMicros: Infinity });
      const made = { ...newMeter(answer.body.billing.id, name, bounds), total: { least: micros, most: micros } };
      model.meters.push({ ...made, wasUnbounded: allowOverages });
    },
    async createKey() {
      const open = model.meters.filter(({ keys }) => keys.length < MOST_KEYS_OF_METER);
      if (open.length === 0) return;
      const meter = random.pick(open);
      const body = { workspaceId, name: 'k', externalMeterId: meter.name };
      const answer = await ask({ operationId: 'createKey', body });
      if (!answer?.body) return;
      const { id, key } = answer.body.apiKey;
      const state = setting<KeyState>('enabled');
      meter.keys.push({ id, text: key, endedTexts: [], meter, state, mayBeRotated: false });
    },
    verify: () => verify(),
    verifyOnce: () => verify(newId('evt')),
    async verifyAgain() {
      const recent = repeatable.filter(({ debit }) => isRemembered(debit));
      const undecided = recent.filter(({ debit }) => debit.state === 'undecided');
      const some = undecided.length > 0 && random.chance(0.5) ? undecided : recent;
      if (some.length === 0) return;
      const { debit, key, idempotencyKey } = random.pick(some);
      await verifyKey(key, debit, idempotencyKey, askOne, true);
    },
    /** With a text that a rotation ended. */
    async verifyEnded() {
      const texts = model.keys().flatMap(({ endedTexts }) => endedTexts);
      if (texts.length === 0) return;
      const answer = await verifyBy(askOne, { key: random.pick(texts) }, 'an ended text');
      if (answer?.status === 'VALID') breaks(`a key was VALID by a text that was rotated away`);
    },
    async refill() {
      const meter = random.pick(model.meters);
      const micros = 1 + random.below(500);
      meter.total.most += micros;
      const body = { workspaceId, externalMeterId: meter.name, refill: formatCredits(micros) };
      const answer = await ask({ operationId: 'refillBilling', body });
      if (answer?.body) meter.total.least += micros;
      if (answer?.error) meter.total.most -= micros;
    },
    async adjust() {
      const meter = random.pick(model.meters);
      const debit = model.newDebit('adjustment', meter, model.newAmount() * (random.chance(0.3) ? -1 : 1));
      const body = { amount: formatCredits(debit.micros), reason: 'r' };
      const answer = await ask({ operationId: 'adjustBilling', params: { bid: meter.id }, body });
      if (answer?.body) decideDebit(debit, 'sure');
      if (answer?.error) decideDebit(debit, 'none');
    },
    async bound() {
      const meter = random.pick(model.meters);
      const bounds = {
        allowOverages: random.chance(0.4),
        // One that is reached soon.
        capMicros: random.pick([Infinity, model.mostTaken(meter, simulation.nowMs()) + random.below(200)]),
      };
      const { allowOverages, capMicros } = bounds;
      if (allowOverages) meter.wasUnbounded = true;
      const body = { allowOverages, spendCap: capMicros === Infinity ? null : formatCredits(capMicros) };
      await changeSetting(meter.bounds, bounds, () =>
        ask({ operationId: 'updateBilling', params: { bid: meter.id }, body }),
      );
    },
    async grant() {
      const meter = random.pick(model.meters);
      if (meter.grants.length >= MOST_GRANTS) return;
      const now = simulation.nowMs();
      const beginsAt = now + random.pick([0, 0, 5_000, 3_600_000]);
      const endsAt = random.chance(0.7) ? beginsAt + random.pick([3_000, 60_000, DAY_MS]) : Infinity;
      const micros = 1 + random.below(500);
      const grant: Grant = { id: '', micros, beginsAt, endsAt, state: 'undecided', mayBeVoid: false };
      meter.grants.push(grant);
      const body = {
        credits: formatCredits(grant.micros),
        ...(beginsAt > now && { beginsAt }),
        ...(endsAt !== Infinity && { expiresAt: endsAt }),
        priority: random.pick([50, 50, 10, 90]),
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
    /** Two changes of one key at once, the second one after something: it is what Postgres has in the end. */
    async changeTwice(after = Promise.resolve()) {
      const key = pickLasting();
      if (!key || key.state.changes % 2 === 1) return;
      const { state } = key;
      state.changes += 1;
      state.may = [...state.may, 'disabled', 'enabled'];
      const answers = await Promise.all([setEnabled(key, false), after.then(() => setEnabled(key, true))]);
      // Of one that was deleted before, nobody was told that it is in force.
      const taken = answers.every((one) => one?.body);
      const stored = taken && (await ask({ operationId: 'getKey', params: paramsOf(key) }));
      state.changes += 1;
      if (stored && stored.body) state.may = [stateOfKey(stored.body)];
    },
    async rotate() {
      const key = pickLasting();
      if (!key || key.mayBeRotated) return;
      key.mayBeRotated = true;
      const answer = await ask({ operationId: 'rotateKey', params: paramsOf(key), body: { graceSeconds: 0 } });
      if (answer?.body) {
        key.endedTexts.push(key.text);
        key.text = answer.body.apiKey.key;
      }
      if (answer) key.mayBeRotated = false;
    },
    async read() {
      await ask({ operationId: 'getBilling', params: { bid: random.pick(model.meters).id } });
    },
  };

  function pickKey(): Key {
    return random.pick(model.keys());
  }

  function pickLasting(): Key | undefined {
    const keys = model.keys().filter(({ state }) => !isSurely(state, 'deleted'));
    return keys.length === 0 ? undefined : random.pick(keys);
  }

  async function verify(idempotencyKey?: string, asking?: Asking): Promise<void> {
    const key = pickKey();
    const debit = model.newDebit('verification', key.meter, model.newAmount());
    if (idempotencyKey) repeatable.push({ debit, key, idempotencyKey });
    await verifyKey(key, debit, idempotencyKey, asking);
  }

  async function verifyAlike(asking: Asking): Promise<void> {
    const key = pickKey();
    const micros = model.newAmount();
    const alike = 2 + random.below(4);
    const debits = Array.from({ length: alike }, () => model.newDebit('verification', key.meter, micros, alike));
    await Promise.all(debits.map((debit) => verifyKey(key, debit, undefined, asking)));
  }

  /** Whether it is debited once, however often it is asked for again now. */
  function isRemembered({ sinceMs, isForgotten }: Debit): boolean {
    return model.latestMs() - sinceMs < IDEMPOTENT_FOR_MS && !isForgotten;
  }

  function askOne(body: Json, idempotencyKey?: string): ReturnType<Asking> {
    const verifying = random.chance(0.1) ? fleet.api() : fleet.verify();
    return (
      verifying &&
      (() =>
        answered(verifying.process, verifying.verify({ caller, body, clientAddress: '192.0.2.1', idempotencyKey })))
    );
  }

  /** Asks for a verification and gives the answer, if one came. */
  function verifyBy(asking: Asking, body: Json, what: string): Promise<Json> {
    return heard(what, asking(body));
  }

  async function heard(what: string, verifying: ReturnType<Asking>): Promise<Json> {
    const number = (requests += 1);
    say(`request ${number}: verify ${what}`);
    try {
      const decision = await verifying?.();
      if (!decision) return undefined;
      const { status, reason, body } = decision;
      const answer = JSON.parse(body);
      say(`request ${number}: ${status} ${reason} ${JSON.stringify(answer.billing ?? '')}`);
      return { ...answer, status };
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
    isRepeated = false,
  ): Promise<void> {
    const body = { key: key.text, billing: { usage: formatCredits(debit.micros) } };
    const asked = asking(body, idempotencyKey);
    if (!asked) return;
    const answer = await decided(debit, () => decide(asked, key, debit.micros, idempotencyKey !== undefined));
    if (!answer) {
      // As clients do.
      if (idempotencyKey && isRemembered(debit) && random.chance(0.5))
        await verifyKey(key, debit, idempotencyKey, askOne, true);
      return;
    }
    // A key that was revoked since is refused, whatever it is asked again.
    const isRefused = ['USAGE_LIMITED', 'RATE_LIMITED'].includes(answer.status);
    if (debit.state === 'sure' && isRefused && !debit.mayBeLost && !debit.isForgotten)
      breaks(`a verification of ${debit.micros} was VALID, and ${answer.status} when it was asked for again`);
    // Another request for it may still be under way; and what a key that was revoked since answers says nothing of the first one.
    if (answer.status === 'VALID' || (debit.asking === 0 && (isRefused || !isRepeated)))
      decideDebit(debit, answer.status === 'VALID' ? 'sure' : 'none');
  }

  /** Asks for something that is debited: once it has ended, nothing of it is debited later. */
  async function decided<T>(debit: Debit, asking: () => Promise<T>): Promise<T> {
    debit.asking += 1;
    // A refusal is not remembered: asked for again, it is decided anew.
    if (debit.state === 'none') debit.state = 'undecided';
    const answer = await asking();
    debit.asking -= 1;
    // Who has not heard that clocks were set back still goes by the time before.
    const isSure = simulation.passedMs() > setBackMs + MOST_SET_BACK_MS;
    debit.noLaterThanMs = isSure ? Math.max(debit.noLaterThanMs ?? 0, simulation.nowMs()) : Infinity;
    return answer;
  }

  /** The answer of a verification, if one came; it is held against what is known of the key. */
  async function decide(verifying: () => Promise<Decided>, key: Key, micros: number, isOld = false): Promise<Json> {
    const { text, state, meter } = key;
    const { changes } = state;
    const bounded = meter.bounds.changes;
    const least = leastGiven(meter);
    const fromMs = simulation.nowMs();
    const answer = await heard(`key ${key.id} for ${micros}`, verifying);
    if (!answer) return undefined;
    const { status, reason } = answer;
    if (state.changes === changes && key.text === text && !key.mayBeRotated && !isOld) {
      const isOn = !['DISABLED', 'DELETED', 'INVALID', 'EXPIRED'].includes(status);
      if (!state.may.some((one) => (one === 'enabled') === isOn))
        breaks(`a key that is ${state.may.join(' or ')} was ${status} ${reason}`);
    }
    const isJudged = status === 'USAGE_LIMITED' && !isOld && meter.bounds.changes === bounded;
    if (isJudged && !maySayUsedUp(model, meter, least, [fromMs, simulation.nowMs()]))
      breaks(
        `a verification of ${micros} was refused, though ${least.micros} were bought and at most ${model.mostTaken(meter, fromMs)} taken`,
      );
    if (answer.billing) {
      const { may, changes: boundedNow } = meter.bounds;
      const isBound = status === 'VALID' && !isOld && boundedNow === bounded && may.length === 1;
      const fault = faultOfAmounts(model, meter, amountsOf(answer.billing), isBound ? may[0] : undefined);
      if (fault) breaks(`${fault}: ${JSON.stringify(answer.billing)}`);
    }
    return answer;
  }

  function decideDebit(debit: Debit, state: 'sure' | 'none'): void {
    if (debit.state === 'sure') return;
    debit.state = state;
    debit.answeredMs = simulation.passedMs();
  }

  /** What is said of an error that clients expect; any other breaks a promise. */
  function known(error: unknown): string {
    if (error instanceof ApiError) return `${error.code} ${error.errorName}`;
    breaks(`a request failed with ${(error as Error).stack}`);
    return String(error);
  }

  async function change(to: KeyState): Promise<void> {
    const key = pickLasting();
    if (!key) return;
    await changeSetting(key.state, to, () =>
      to === 'deleted' ? ask({ operationId: 'deleteKey', params: paramsOf(key) }) : setEnabled(key, to === 'enabled'),
    );
  }

  function setEnabled(key: Key, enabled: boolean): Promise<Asked> {
    return ask({ operationId: 'updateKey', params: paramsOf(key), body: { enabled } });
  }

  function paramsOf({ id }: Key) {
    return { id: workspaceId, akid: id };
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
    verifyAlike,
    verifyBy,
    known,
    decide,
    pickKey,
    decideDebit,
    /** Redis has lost what was answered since a moment, and is in no book; `forgets` says that the books may have more. */
    noteLoss(sinceMs: number, isBooked: (debit: Debit) => boolean, forgets: boolean): void {
      for (const debit of model.debits) {
        // Postgres has adjustments.
        if (debit.what === 'adjustment') continue;
        // What it keeps of a decision, it loses together with its event.
        if (forgets) debit.isForgotten = true;
        if (forgets && debit.asking > 0) debit.mayBeDouble = true;
        if (debit.state === 'none' || debit.answeredMs < sinceMs || isBooked(debit)) continue;
        debit.mayBeLost = true;
        debit.meter.lostMicros += debit.micros;
      }
      // What was held is lost, and what was settled is held again.
      for (const hold of model.holds) {
        if (hold.changedMs < sinceMs) continue;
        hold.mayBeLost = true;
        if (hold.captures.length > 0 || hold.charges || hold.endsAtMs > model.latestMs() - HELD_AGAIN_MS)
          hold.meter.lostMicros += mostLost(hold);
        hold.isOver = false;
      }
      model.losses += 1;
    },
    /** The clocks are about to be set back: what is debited then may have a later time than its answer. */
    noteSetBack(): void {
      model.latestMs();
      setBackMs = simulation.passedMs();
      for (const debit of model.debits) if (debit.asking > 0) debit.noLaterThanMs = Infinity;
    },
  };
}
