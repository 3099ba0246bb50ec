import {
  NEVER as LATEST,
  packAccountSettings,
  PLAIN_CLASS,
  PLAIN_NUMBER,
} from '../../shared/stores/account-settings.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import type { What } from '../../shared/verification/capture-protocol.ts';
import { plainClass } from '../../apps/api/sync/loaders/billings.ts';
import { grantOf, type Command } from './commands.ts';
import { Account, NEVER, partOf, sum, type Alert, type Answer, type Grant } from './model.ts';
import type { recordOfProduct } from './product-scripts.ts';

const CLOCK_BACK_MS = 7;
// No event is older than 2020.
const START = Date.UTC(2027, 0);

type Product = ReturnType<typeof recordOfProduct>;
type Outcome = Awaited<ReturnType<Product['at']>>;

/** A grant as Postgres keeps it: with the end that it was given. */
type Stored = {
  grant: Grant;
  endsAt: number;
  rollEndsAt: number;
  most: bigint;
  firstVersion: number;
  gone: boolean;
  voided?: number;
};

/** A billing record in Redis, and its model. Each command goes to both, and then all of both is compared. */
export class Record {
  readonly model = new Account(START);
  private isRebuilt = false;
  private stored: Stored[] = [];
  private version = 0;
  private numbers = new Map([[PLAIN_CLASS, PLAIN_NUMBER]]);
  private classes = PLAIN_NUMBER;
  private alerts: Alert[] = [];
  private crossed: Outcome['crossed'] = [];
  /** The time that Redis was last told. */
  private toldMs = 0;
  private readonly product: Product;

  constructor(product: Product) {
    this.product = product;
  }

  /** Does one command; `late`: Redis hears of the time only with the next one. Gives the answer; throws where it differs from the model. */
  async do(command: Command, late: boolean): Promise<Answer | 'NOTHING'> {
    const [inModel, asked] = this.planOf(command);
    const grants = this.model.grants.length;
    const expected = inModel();
    if (this.version === 0) await this.declare();
    if (command.do === 'grant') this.store(this.model.grants[grants]!, command);
    if (command.do === 'alerts') this.alerts = command.alerts;
    if (['grant', 'void', 'settings', 'alerts'].includes(command.do)) await this.declare();
    if (command.do === 'wait' && late) return expected;
    // What the api refuses never comes to Redis.
    const sent = command.do === 'adjust' && expected !== 'DONE' ? undefined : asked;
    const outcome = await this.ask(command.do, sent);
    if (sent && outcome.answer !== expected) throw new Error(`answered ${outcome.answer}, model ${expected}`);
    this.compare(outcome);
    return expected;
  }

  /** Makes it a plain record that has used some of its credits, before anything else. */
  async startPlain(total: bigint, used: bigint): Promise<void> {
    const { model } = this;
    model.settings = { allowOverages: true, spendCap: undefined };
    const command = { do: 'grant', micros: total, priority: 50, beginsIn: 0, lasts: 0, rollsFor: 0, most: 0n } as const;
    if (total > 0n) model.grant(grantOf(command, model.now));
    model.verify(used);
    for (const grant of model.grants) this.store(grant, command);
    // That was no call of this shard.
    model.calls = [];
    await this.product.startPlain(used);
  }

  /** What a command does to the model (`NOTHING` where there is no such grant, hold or call), and what the scripts are asked, if anything. */
  private planOf(command: Command): [inModel: () => Answer | 'NOTHING', asked?: (() => Promise<string>) | undefined] {
    const { model, product } = this;
    const once = `call-${model.calls.length}`;
    const hold = 'hold' in command ? model.holds[command.hold] : undefined;
    const nothing = () => 'NOTHING' as const;
    const settling = (what: What, amount: number) => () => product.settleHold(what, `hold-${hold!.id}`, amount);
    switch (command.do) {
      case 'wait':
        return [() => model.advance(model.now + command.ms)];
      case 'grant':
        return [() => model.grant(grantOf(command, model.now))];
      case 'void': {
        const grant = model.grants[command.grant];
        return grant ? [() => model.voidGrant(grant), this.voidOf(this.stored[command.grant])] : [nothing];
      }
      case 'verify': {
        const micros = Number(command.micros);
        return [() => model.verify(command.micros), () => product.ask({ micros, once })];
      }
      case 'hold': {
        const { micros, expiresIn, onExpiry } = command;
        const asked = { name: `hold-${model.holds.length}`, micros: Number(micros), forMs: expiresIn, onExpiry, once };
        return [() => model.hold(micros, expiresIn, onExpiry), () => product.ask(asked)];
      }
      case 'capture':
        return hold
          ? [() => model.capture(hold, command.micros), settling('capture', Number(command.micros))]
          : [nothing];
      case 'release':
        return hold ? [() => model.release(hold), settling('release', 0)] : [nothing];
      case 'extend':
        return hold ? [() => model.extend(hold, command.expiresIn), settling('extend', command.expiresIn)] : [nothing];
      case 'cancel': {
        const call = model.calls[command.call];
        return call ? [() => model.cancel(call), () => product.cancelCall(`call-${command.call}`)] : [nothing];
      }
      case 'adjust':
        return [() => model.adjust(command.micros), () => product.adjust(command.micros)];
      case 'rebuild':
        return [() => 'DONE', product.rebuild];
      case 'alerts':
        return [() => model.setAlerts(command.alerts)];
      case 'settings':
        return [() => model.set(command)];
    }
  }

  private voidOf(one: Stored | undefined): (() => Promise<string>) | undefined {
    // A pending one is declared no more.
    if (one?.grant.state === 'PENDING') one.gone = true;
    if (one?.grant.state !== 'ACTIVE') return undefined;
    const before = this.activeOf(this.refOf(one)).filter((other) => ageOf(other) < ageOf(one));
    const from = this.numberOf(one);
    if (one.rollEndsAt > 0) return () => this.product.voidGrant(0, from, 0, -1);
    const number = (one.voided = ++this.classes);
    return () => this.product.voidGrant(number, from, sum(before.map(({ grant }) => grant.micros)), one.grant.micros);
  }

  private store(grant: Grant, command: Extract<Command, { do: 'grant' }>): void {
    const { endsAt = NEVER, rollover } = grantOf(command, this.model.now);
    const rolls = { rollEndsAt: rollover?.endsAt ?? 0, most: rollover?.most ?? 0n };
    this.stored.push({ grant, endsAt, ...rolls, firstVersion: this.version + 1, gone: false });
  }

  /**
   * The class of a grant: priority and end, and before them its age, which decides between classes of one priority and end.
   * One that rolls over is a class of its own, and parts those that are older than it from those that are younger.
   */
  private refOf(one: Stored): string {
    const { priority } = one.grant;
    const parts = this.stored.filter(
      (other) =>
        other.rollEndsAt > 0 &&
        !other.gone &&
        other.grant.priority === priority &&
        (other.endsAt === one.endsAt || other.rollEndsAt === one.endsAt) &&
        ageOf(other) < ageOf(one),
    );
    const rolls = one.rollEndsAt > 0;
    const age = rolls ? ageOf(one) : Math.max(0, ...parts.map(ageOf));
    return `${String(age).padStart(16, '0')}${rolls ? 'a' : 'b'}:${priority}:${instant(one.endsAt)}`;
  }

  /** Of a voided grant its own, else that of its class. */
  private numberOf(one: Stored): number {
    const ref = this.refOf(one);
    const number = one.voided ?? this.numbers.get(ref) ?? ++this.classes;
    if (one.voided === undefined) this.numbers.set(ref, number);
    return number;
  }

  private activeOf(ref: string): Stored[] {
    return this.stored
      .filter((one) => this.refOf(one) === ref && one.grant.state === 'ACTIVE')
      .toSorted((a, b) => ageOf(a) - ageOf(b));
  }

  /** Writes the settings, as the loader of billing records will. */
  private async declare(): Promise<void> {
    this.version += 1;
    const declared = Map.groupBy(
      this.stored.filter(({ gone }) => !gone),
      (one) => this.refOf(one),
    );
    const classes = [...declared].map(([ref, grants]) => {
      const [first] = grants as [Stored];
      const begun = grants.filter(({ grant }) => grant.beginsAt <= this.model.now);
      const pending = grants.filter(({ grant }) => grant.beginsAt > this.model.now);
      return {
        ref,
        number: this.numbers.get(ref) ?? this.numberOf(first),
        priority: first.grant.priority,
        endsAtMs: instant(first.endsAt),
        rollEndsAtMs: instant(first.rollEndsAt),
        rollMaxMicros: Number(first.most),
        firstVersion: first.firstVersion,
        begunMicros: Number(sum(begun.map(({ grant }) => grant.micros))),
        pending: pending.map(({ grant }) => ({ beginsAtMs: grant.beginsAt, micros: Number(grant.micros) })),
      };
    });
    if (!declared.has(PLAIN_CLASS)) classes.push(plainClass(0));
    const { allowOverages, spendCap } = this.model.settings;
    const cap = spendCap !== undefined && { spendCap: formatCredits(Number(spendCap)) };
    const answerPart = JSON.stringify({ totalCredits: '0', allowOverages, ...cap }).slice(1, -1);
    const settings = { version: this.version, billingId: this.product.billingId, answerPart };
    await this.product.declare(packAccountSettings(settings, classes, this.alerts.map(packed)));
  }

  private async ask(what: Command['do'], asked: (() => Promise<string>) | undefined): Promise<Outcome> {
    const { now } = this.model;
    // A clock that was set back, seen by what depends on it in nothing else.
    const isBack = this.toldMs === now && (!asked || ['verify', 'adjust', 'release'].includes(what));
    this.toldMs = now;
    const outcome = await this.product.at(isBack ? now - CLOCK_BACK_MS : now, asked ?? this.product.bringUpToDate);
    this.crossed.push(...outcome.crossed);
    this.isRebuilt ||= what === 'rebuild';
    return outcome;
  }

  private compare({ amounts, untilMs, overdrawn, left, alerts }: Outcome): void {
    const { model } = this;
    const { sums } = this.product;
    const { used, held, total, expired, limit } = model;
    same('used held total expired limit', amounts, [used, held, total, expired, limit]);
    const next = Math.min(...model.moments(), LATEST);
    if (untilMs > next) throw new Error(`its next moment is ${untilMs}, model ${next}`);
    this.compareAlerts(alerts);
    same('overdrawn', [overdrawn], [model.overdrawn]);
    const [used0 = 0, held0 = 0, expired0 = 0] = sums.get(0) ?? [];
    same('overdrawn by lines', [used0 + held0 + expired0], [overdrawn]);
    const ended = [0n, 0n, 0n];
    const begun = this.stored.filter(({ grant }) => grant.of);
    for (const [number, ofClass] of Map.groupBy(begun, (one) => this.numberOf(one))) {
      const parts = ofClass.map(({ grant }) => partOf(grant));
      const wanted = (['used', 'held', 'expired'] as const).map((name) => sum(parts.map((part) => part[name])));
      const told = sums.get(number) ?? [0, 0, 0];
      const isOpen = ofClass[0]!.grant.state === 'ACTIVE';
      // What ended more than a day ago has no name where it is given back.
      if (isOpen || (expired0 === 0 && !this.isRebuilt)) same(`used, held and expired of ${number}`, [...told], wanted);
      if (!isOpen) for (const [i, micros] of wanted.entries()) ended[i]! += BigInt(told[i]!) - micros;
      const granted = sum(ofClass.map(({ grant }) => grant.micros));
      same(`left of ${number}`, [left.get(number) ?? 0], [granted - sum(told.map(BigInt))]);
    }
    // A rebuilt account gives back to what ended in one moment in another order.
    if (expired0 === 0) same('what lines tell of all that ended, less the model', ended, [0, 0, 0]);
  }

  /** Crossed as often as in the model, each arming once, and armed as there. */
  private compareAlerts(alerts: Outcome['alerts']): void {
    const names = this.crossed.map(({ name }) => name);
    same('alerts crossed', names, this.model.crossed);
    const armings = new Set(this.crossed.map(({ name, armed }) => `${name} ${armed}`));
    same('alerts that were crossed twice', [this.crossed.length - armings.size], [0]);
    const armed = alerts.map(([text, , , armed]) => [text.split('\0', 1)[0], armed !== ''].join());
    const isArmed = (name: string) => [...this.model.armed].some((alert) => alert.name === name);
    same(
      'armed',
      armed,
      this.alerts.map(({ name }) => [name, isArmed(name)].join()),
    );
  }
}

function same(what: string, got: unknown[], wanted: unknown[]): void {
  if (got.join(' ') !== wanted.join(' ')) throw new Error(`${what}: ${got.join(' ')}, model ${wanted.join(' ')}`);
}

function packed({ name, when }: Alert) {
  return 'available' in when
    ? { name, kind: 'available' as const, value: Number(when.available) }
    : { name, kind: 'usedPercent' as const, value: Number(when.usedPercent) };
}

function ageOf({ grant }: Stored): number {
  return grant.beginsAt * 1_000 + grant.id;
}

function instant(ms: number): number {
  return ms === NEVER ? LATEST : ms;
}
