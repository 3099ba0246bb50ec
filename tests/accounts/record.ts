import {
  NEVER as LATEST,
  packAccountSettings,
  PLAIN_CLASS,
  PLAIN_NUMBER,
} from '../../shared/stores/account-settings.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { plainClass } from '../../apps/api/sync/loaders/billings.ts';
import { apply } from './apply.ts';
import type { Line } from './lines.ts';
import { grantOf, type Command } from './commands.ts';
import { Account, NEVER, partOf, type Alert, type Answer, type Grant } from './model.ts';

const CLOCK_BACK_MS = 7;
// No event is older than 2020.
const START = Date.UTC(2027, 0);

/** What Redis is asked: a command's name and what it needs. */
export type Call = (string | number | bigint)[];

/** What does commands to a record in Redis. */
export type Doer = {
  readonly billingId: string;
  /** What the record had used as a plain one, and its settings with each new version. */
  startPlain(used: bigint): Promise<void>;
  declare(settings: string): Promise<void>;
  /** Does a command at a time. */
  run(nowMs: number, call: Call): Promise<Outcome>;
  remove(): Promise<void>;
};

/** What Redis has after a command, and what its lines tell. */
export type Outcome = {
  answer: string;
  /** Used, held, total and expired, and the most that used and held may reach. */
  amounts: bigint[];
  untilMs: number;
  overdrawn: bigint;
  /** Of each open class. */
  left: ReadonlyMap<number, bigint>;
  /** Used, held and expired of each class, as all lines sum up to it. */
  sums: ReadonlyMap<number, readonly number[]>;
  /** By the lines of this command. */
  crossed: Line['crossed'];
  state: string[];
};

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
  private crossed: Line['crossed'] = [];
  /** The time that Redis was last told. */
  private toldMs = 0;
  private readonly doer: Doer;

  constructor(doer: Doer) {
    this.doer = doer;
  }

  /** Does one command; `late`: Redis hears of the time only with the next one. Gives the answer; throws where it differs from the model. */
  async do(command: Command, late: boolean): Promise<Answer | 'NOTHING'> {
    const call = this.callOf(command);
    const grants = this.model.grants.length;
    const expected = apply(this.model, command);
    if (this.version === 0) await this.declare();
    if (command.do === 'grant') this.store(this.model.grants[grants]!, command);
    if (command.do === 'alerts') this.alerts = command.alerts;
    if (['grant', 'void', 'settings', 'alerts'].includes(command.do)) await this.declare();
    if (command.do === 'wait' && late) return expected;
    // What the api refuses never comes to Redis.
    const refused = call[0] === 'adjust' && expected !== 'DONE';
    const answer = await this.run(refused ? ['turn'] : call);
    if (call[0] !== 'turn' && !refused && answer.answer !== expected)
      throw new Error(`answered ${answer.answer}, model ${expected}`);
    this.compare(answer);
    return expected;
  }

  /** Makes it a plain record that has used some of its credits, before anything else. */
  async startPlain(total: bigint, used: bigint): Promise<void> {
    const { model } = this;
    model.settings = { allowOverages: true, spendCap: undefined };
    const command = { do: 'grant', micros: total, priority: 50, beginsIn: 0, lasts: 0, rollsFor: 0, most: 0n } as const;
    if (total > 0n) apply(model, command);
    model.verify(used);
    for (const grant of model.grants) this.store(grant, command);
    // That was no call of this shard.
    model.calls = [];
    await this.doer.startPlain(used);
  }

  /** What Redis is asked for a command. Called before the model has done it. */
  private callOf(command: Command): Call {
    const hold = 'hold' in command ? this.model.holds[command.hold] : undefined;
    if ('hold' in command && !hold) return ['turn'];
    const [name, nextCall] = [`hold-${hold?.id}`, `call-${this.model.calls.length}`];
    switch (command.do) {
      case 'rebuild':
        return ['rebuild'];
      case 'adjust':
        return ['adjust', command.micros];
      case 'verify':
        return ['verify', command.micros, nextCall];
      case 'hold':
        return [
          'hold',
          `hold-${this.model.holds.length}`,
          command.micros,
          command.expiresIn,
          command.onExpiry,
          nextCall,
        ];
      case 'cancel':
        return this.model.calls[command.call] ? ['cancel', `call-${command.call}`] : ['turn'];
      case 'capture':
        return ['capture', name, command.micros];
      case 'release':
        return ['release', name];
      case 'extend':
        return ['extend', name, command.expiresIn];
      case 'void':
        return this.voidOf(this.stored[command.grant]);
      default:
        return ['turn'];
    }
  }

  private voidOf(one: Stored | undefined): Call {
    // A pending one is declared no more.
    if (one?.grant.state === 'PENDING') one.gone = true;
    if (one?.grant.state !== 'ACTIVE') return ['turn'];
    const before = this.activeOf(this.refOf(one)).filter((other) => ageOf(other) < ageOf(one));
    const from = this.numberOf(one);
    if (one.rollEndsAt > 0) return ['void', 0, from, 0, -1];
    one.voided = ++this.classes;
    return ['void', one.voided, from, sum(before.map(({ grant }) => grant.micros)), one.grant.micros];
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
    const settings = { version: this.version, billingId: this.doer.billingId, answerPart };
    await this.doer.declare(packAccountSettings(settings, classes, this.alerts.map(packed)));
  }

  private async run(call: Call): Promise<Outcome> {
    const { now } = this.model;
    // A clock that was set back, seen by what depends on it in nothing else.
    const back =
      this.toldMs === now && !['hold', 'extend', 'void', 'capture', 'cancel', 'rebuild'].includes(String(call[0]))
        ? CLOCK_BACK_MS
        : 0;
    this.toldMs = now;
    const answer = await this.doer.run(now - back, call);
    this.crossed.push(...answer.crossed);
    this.isRebuilt ||= call[0] === 'rebuild';
    return answer;
  }

  private compare({ amounts, untilMs, overdrawn, left, sums, state }: Outcome): void {
    const { model } = this;
    const { used, held, total, expired, limit } = model;
    same('used held total expired limit', amounts, [used, held, total, expired, limit]);
    const next = Math.min(...model.moments(), LATEST);
    if (untilMs > next) throw new Error(`its next moment is ${untilMs}, model ${next}`);
    this.compareAlerts(state);
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
  private compareAlerts(fields: string[]): void {
    const names = this.crossed.map(({ name }) => name);
    same('alerts crossed', names, this.model.crossed);
    const armings = new Set(this.crossed.map(({ name, armed }) => `${name} ${armed}`));
    same('alerts that were crossed twice', [this.crossed.length - armings.size], [0]);
    const state = fields.slice(-1 - 5 * this.alerts.length, -1);
    const armed = this.alerts.map(({ name }, i) => [name, state[5 * i], state[5 * i + 4] !== ''].join());
    const isArmed = (name: string) => [...this.model.armed].some((alert) => alert.name === name);
    same(
      'armed',
      armed,
      this.alerts.map(({ name }) => [name, name, isArmed(name)].join()),
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

function sum(amounts: bigint[]): bigint {
  return amounts.reduce((total, one) => total + one, 0n);
}
