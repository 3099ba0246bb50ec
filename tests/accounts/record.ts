import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { END } from '../../shared/stores/fields.ts';
import { newId } from '../../shared/values/ids.ts';
import { apply } from './apply.ts';
import { grantOf, type Command } from './commands.ts';
import { Account, left, MOST_MICROS, NEVER, type Grant } from './model.ts';

const CLOCK_BACK_MS = 7;
const LATEST = 9_000_000_000_000_000;

/** Makes the script of commands.lua known to Redis. Of the parts that it names, those of the product stand in shared. */
export async function loadCommands(redis: Redis): Promise<string> {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
  const own = ['holds', 'account', 'turns', 'commands'].map((name) => read(`lua/${name}.lua`));
  const text = [read('../../shared/stores/lua/parts/names.lua'), ...own].join('\n');
  return (await redis.script('LOAD', text)) as string;
}

/** A grant as Postgres keeps it: with the end that it was given. */
type Stored = { grant: Grant; endsAt: number; rollEndsAt: number; most: bigint; firstVersion: number; gone: boolean };
/** A class, or a grant of one, that has ended, as the lines told it. */
type Ended = { ref: string; used: bigint; expired: bigint; pinned: bigint };

/** A billing record in Redis, and its model. Each command goes to both, and then all of both is compared. */
export class Record {
  readonly model = new Account(1_000);
  private stored: Stored[] = [];
  private version = 0;
  private ended: Ended[] = [];
  private lost = new Map<string, bigint>();
  /** The time that Redis was last told. */
  private toldMs = 0;
  private readonly keys: string[];
  private readonly redis: Redis;
  private readonly sha: string;

  constructor(redis: Redis, sha: string) {
    this.redis = redis;
    this.sha = sha;
    const id = newId('bill');
    this.keys = ['b', 'o', 'e', 'z'].map((kind) => `{07}:${kind}:${id}`);
  }

  /** Does one command; `late`: Redis hears of the time only with the next one. Throws where it differs from the model. */
  async do(command: Command, late: boolean): Promise<void> {
    const call = this.callOf(command);
    const grants = this.model.grants.length;
    const expected = apply(this.model, command);
    if (this.version === 0) await this.declare();
    if (command.do === 'grant') this.store(this.model.grants[grants]!, command);
    if (command.do === 'grant' || command.do === 'void' || command.do === 'settings') await this.declare();
    if (command.do === 'wait' && late) return;
    const answer = await this.run(call);
    if (call[0] !== 'turn' && answer[0] !== expected) throw new Error(`answered ${answer[0]}, model ${expected}`);
    this.compare(answer);
  }

  /** Makes it a plain record that has used some of its credits, before anything else. */
  async startPlain(total: bigint, used: bigint): Promise<void> {
    const { model } = this;
    model.settings = { allowOverages: true, spendCap: undefined };
    const command = { do: 'grant', micros: total, priority: 50, beginsIn: 0, lasts: 0, rollsFor: 0, most: 0n } as const;
    if (total > 0n) apply(model, command);
    model.verify(used);
    for (const grant of model.grants) this.store(grant, command);
    await this.redis.hset(this.keys[0]!, 'u', String(used));
  }

  async remove(): Promise<void> {
    await this.redis.del(this.keys);
  }

  /** What Redis is asked for a command. Called before the model has done it. */
  private callOf(command: Command): (string | number | bigint)[] {
    const hold = 'hold' in command ? this.model.holds[command.hold] : undefined;
    if ('hold' in command && !hold) return ['turn'];
    const name = `hold-${hold?.id}`;
    switch (command.do) {
      case 'verify':
      case 'adjust':
        return [command.do, command.micros];
      case 'hold':
        return ['hold', `hold-${this.model.holds.length}`, command.micros, command.expiresIn, command.onExpiry];
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

  private voidOf(one: Stored | undefined): (string | number | bigint)[] {
    // A pending one is declared no more.
    if (one?.grant.state === 'PENDING') one.gone = true;
    if (one?.grant.state !== 'ACTIVE') return ['turn'];
    const before = this.activeOf(this.refOf(one)).filter((other) => ageOf(other) < ageOf(one));
    const micros = one.rollEndsAt > 0 ? -1 : one.grant.micros;
    return ['void', this.refOf(one), sum(before.map(({ grant }) => grant.micros)), micros];
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
      const fields = [ref, first.grant.priority, instant(first.endsAt), instant(first.rollEndsAt), first.most, 0, 0, 0];
      const pairs = pending.map(({ grant }) => `${grant.beginsAt}:${grant.micros}`).join(',');
      return [...fields, first.firstVersion, sum(begun.map(({ grant }) => grant.micros)), pairs].join(END) + END;
    });
    const { allowOverages, spendCap = MOST_MICROS } = this.model.settings;
    const head = [this.version, allowOverages ? '1' : '', spendCap, classes.length].join(END) + END;
    await this.redis.hset(this.keys[0]!, 's', head + classes.join(''));
  }

  private async run(call: (string | number | bigint)[]): Promise<string[]> {
    const { now } = this.model;
    // A clock that was set back, seen by what depends on it in nothing else.
    const back = this.toldMs === now && !['hold', 'extend', 'capture'].includes(String(call[0])) ? CLOCK_BACK_MS : 0;
    this.toldMs = now;
    const args = [now - back, ...call].map(String);
    const answer = (await this.redis.evalsha(this.sha, this.keys.length, ...this.keys, ...args)) as string[];
    for (const line of (answer[8] ?? '').split('\n')) if (line !== '') this.note(line.split(' '));
    return answer;
  }

  /** What a line tells of grants that have ended. */
  private note([what = '', ref = '', ...micros]: string[]): void {
    const [first = 0n, second = 0n, third = 0n] = micros.map(BigInt);
    const pin = this.ended.find((one) => one.ref === ref && one.pinned > 0n);
    if (what === 'left') this.ended.push({ ref, used: first, expired: second, pinned: third });
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
    const [ref = '', , , , , , granted = 0, gave = 0] = fields.slice(11 + 8 * i);
    return { ref, granted: BigInt(granted), gave: BigInt(gave) };
  });
  return { usedAtTurn: usedAtTurn!, overdrawn: overdrawn!, classes };
}

function same(what: string, got: unknown[], wanted: unknown[]): void {
  if (got.join(' ') !== wanted.join(' ')) throw new Error(`${what}: ${got.join(' ')}, model ${wanted.join(' ')}`);
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
