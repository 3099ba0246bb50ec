import { NEVER as LATEST, packAccountSettings } from '../../shared/stores/account-settings.ts';
import { END } from '../../shared/stores/fields.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { apply } from './apply.ts';
import { readCrossed } from './lines.ts';
import { grantOf, type Command } from './commands.ts';
import { Account, left, NEVER, type Alert, type Answer, type Grant } from './model.ts';

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
  /** Does a command at a time. Gives its answer, used, held, total, expired, limit, untilMs, the state, what lines told, and alerts crossed. */
  run(nowMs: number, call: Call): Promise<string[]>;
  remove(): Promise<void>;
};

/** A grant as Postgres keeps it: with the end that it was given. */
type Stored = { grant: Grant; endsAt: number; rollEndsAt: number; most: bigint; firstVersion: number; gone: boolean };
/** A class, or a grant of one, that has ended, as the lines told it. */
type Ended = { name: string; ref: string; used: bigint; expired: bigint; pinned: bigint };

/** A billing record in Redis, and its model. Each command goes to both, and then all of both is compared. */
export class Record {
  readonly model = new Account(START);
  private stored: Stored[] = [];
  private version = 0;
  private ended: Ended[] = [];
  private lost = new Map<string, bigint>();
  private alerts: Alert[] = [];
  private crossed: { name: string; armed: string }[] = [];
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
    if (call[0] !== 'turn' && !refused && answer[0] !== expected)
      throw new Error(`answered ${answer[0]}, model ${expected}`);
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
    const micros = one.rollEndsAt > 0 ? -1 : one.grant.micros;
    const name = `${this.refOf(one)}/${one.grant.id}`;
    return ['void', name, sum(before.map(({ grant }) => grant.micros)), micros];
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
        priority: first.grant.priority,
        endsAtMs: instant(first.endsAt),
        rollEndsAtMs: instant(first.rollEndsAt),
        rollMaxMicros: Number(first.most),
        firstVersion: first.firstVersion,
        begunMicros: Number(sum(begun.map(({ grant }) => grant.micros))),
        pending: pending.map(({ grant }) => ({ beginsAtMs: grant.beginsAt, micros: Number(grant.micros) })),
      };
    });
    const { allowOverages, spendCap } = this.model.settings;
    const cap = spendCap !== undefined && { spendCap: formatCredits(Number(spendCap)) };
    const answerPart = JSON.stringify({ totalCredits: '0', allowOverages, ...cap }).slice(1, -1);
    const settings = { version: this.version, billingId: this.doer.billingId, answerPart };
    await this.doer.declare(packAccountSettings(settings, classes, this.alerts.map(packed)));
  }

  private async run(call: Call): Promise<string[]> {
    const { now } = this.model;
    // A clock that was set back, seen by what depends on it in nothing else.
    const back =
      this.toldMs === now && !['hold', 'extend', 'capture', 'cancel', 'rebuild'].includes(String(call[0]))
        ? CLOCK_BACK_MS
        : 0;
    this.toldMs = now;
    const answer = await this.doer.run(now - back, call);
    for (const line of (answer[8] ?? '').split('\n')) if (line !== '') this.note(line.split(' '));
    this.crossed.push(...readCrossed(answer[9] ?? ''));
    return answer;
  }

  /** What a line tells of grants that have ended. */
  private note([what = '', name = '', ...micros]: string[]): void {
    const [first = 0n, second = 0n, third = 0n] = micros.map(BigInt);
    const [ref = ''] = name.split('/');
    const pin = this.ended.find((one) => one.name === name && one.pinned > 0n);
    if (what === 'left') this.ended.push({ name, ref, used: first, expired: second, pinned: third });
    if (what === 'rolled') this.lost.set(ref, first);
    if (what === 'paid' || what === 'expired') {
      pin!.pinned -= first;
      pin![what === 'paid' ? 'used' : 'expired'] += first;
    }
    let rest = what === 'returned' ? first : 0n;
    for (const one of this.ended.toReversed()) {
      const part = one.used < rest ? one.used : rest;
      one.used -= part;
      one.expired += part;
      rest -= part;
    }
    if (rest > 0n) throw new Error('more was given back than ended grants have given');
  }

  private compare([, used, held, total, expired, limit, untilMs, turn = '']: string[]): void {
    const { model } = this;
    const names = 'used held total expired limit';
    same(names, [used, held, total, expired, limit], [model.used, model.held, model.total, model.expired, model.limit]);
    const next = Math.min(...model.moments(), LATEST);
    if (Number(untilMs) > next) throw new Error(`its next moment is ${untilMs}, model ${next}`);
    this.compareAlerts(turn);
    const { usedAtTurn, overdrawn, classes } = readTurn(turn);
    let drawn = model.used - usedAtTurn;
    for (const { ref, granted, gave } of classes) {
      const part = granted - gave < drawn ? granted - gave : drawn;
      drawn -= part;
      this.compareClass(ref, gave + part);
    }
    same('overdrawn', [overdrawn + drawn], [model.overdrawn]);
    for (const ref of new Set(this.stored.map((one) => this.refOf(one)))) this.compareEnded(ref);
  }

  /** Crossed as often as in the model, each arming once, and armed as there. */
  private compareAlerts(turn: string): void {
    const names = this.crossed.map(({ name }) => name);
    same('alerts crossed', names, this.model.crossed);
    const armings = new Set(this.crossed.map(({ name, armed }) => `${name} ${armed}`));
    same('alerts that were crossed twice', [this.crossed.length - armings.size], [0]);
    const state = turn.split(END).slice(-1 - 5 * this.alerts.length, -1);
    const armed = this.alerts.map(({ name }, i) => [name, state[5 * i], state[5 * i + 4] !== ''].join());
    const isArmed = (name: string) => [...this.model.armed].some((alert) => alert.name === name);
    same(
      'armed',
      armed,
      this.alerts.map(({ name }) => [name, name, isArmed(name)].join()),
    );
  }

  /** What each active grant of a class gave: the class's use laid over them, the older first. */
  private compareClass(ref: string, gave: bigint): void {
    let rest = gave;
    for (const { grant } of this.activeOf(ref)) {
      const micros = grant.micros - (this.lost.get(ref) ?? 0n);
      const used = micros < rest ? micros : rest;
      rest -= used;
      same(`used and left of grant ${grant.id}`, [used, micros - used], [grant.used, left(grant)]);
    }
    same(`beyond the grants of ${ref}`, [rest], [0n]);
  }

  private compareEnded(ref: string): void {
    const told = this.ended.filter((one) => one.ref === ref);
    const model = this.stored.filter((one) => this.refOf(one) === ref && one.grant.ended > 0).map(({ grant }) => grant);
    const expired = sum(told.map((one) => one.expired)) + (told.length > 0 ? (this.lost.get(ref) ?? 0n) : 0n);
    const pinned = sum(told.map((one) => one.pinned));
    const wanted = [
      sum(model.map((one) => one.used)),
      sum(model.map((one) => one.expired)),
      sum(model.map((one) => one.pinned)),
    ];
    same(`used, expired and pinned of ended ${ref}`, [sum(told.map((one) => one.used)), expired, pinned], wanted);
  }
}

function readTurn(text: string) {
  const fields = text.split(END);
  const [, , , usedAtTurn, overdrawn, , , count] = fields.map((one) => (/^\d+$/.test(one) ? BigInt(one) : 0n));
  const classes = Array.from({ length: Number(count) }, (_, i) => {
    const [ref = '', , , , , , granted = 0, gave = 0] = fields.slice(12 + 8 * i);
    return { ref, granted: BigInt(granted), gave: BigInt(gave) };
  });
  return { usedAtTurn: usedAtTurn!, overdrawn: overdrawn!, classes };
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
