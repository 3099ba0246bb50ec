import { randomBytes } from 'node:crypto';
import { makeSealAddresses } from '../events/sealed-addresses.ts';
import type { Logger } from '../runtime/log.ts';
import { startLoop } from '../runtime/loop.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { Running } from '../runtime/run.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { hideSecrets } from '../values/secrets.ts';
import type { Decision } from './decision.ts';
import type { Lookup } from './lookup-cache.ts';
import { countMinute, type CountedCall } from './refusal-counts.ts';
import { makeSender } from './send-outcomes.ts';

/** Why a gateway's call is refused before any key of it is looked at. */
export const keylessReasons = ['NO_KEY', 'TWO_KEYS'] as const;
export type KeylessReason = (typeof keylessReasons)[number];

/** What a call said of its end client: the route, and the client's address. */
export type Called = { route?: string | undefined; ip?: string | undefined };

/** Counts refusals, and sends them to the books. */
export type Outcomes = {
  /** Counts what became of a call: of one that is VALID, the limits that would have refused it if they did more than watch. */
  note(teamId: string, called: Called, decision: Decision): void;
  noteKeyless(teamId: string, reason: KeylessReason): void;
  /** Appends what each changed cell has counted so far to the outbox, if that has room to spare. */
  send(): Promise<void>;
};

type OutcomesOptions = {
  redis: ShardedRedis;
  /** Whether the outbox has room for what may wait. */
  hasSpareRoom(): boolean;
  metrics: Metrics;
  random: () => number;
};

const SEND_EVERY_MS = 1_000;
const MINUTE_MS = 60_000;
const MOST_OF_KEY = 10;

/** Counts refusals, and sends them once a second, and at the end; a process that is killed loses those of its last second. */
export function startOutcomes({ log, ...options }: OutcomesOptions & { log: Logger }): Outcomes & Running {
  const outcomes = makeOutcomes(options);
  const loop = startLoop(options.redis.clock, SEND_EVERY_MS, log, 'sending refusals', outcomes.send);
  return {
    ...outcomes,
    async stop() {
      await loop.stop();
      await outcomes.send().catch((error: unknown) => log.warn({ error }, 'the last refusals could not be sent'));
    },
  };
}

/**
 * Counts refusals in memory, by minute and cell. The process's boot is a part of a count's identity, so what is sent twice counts
 * once. No call waits for it. While the outbox has no room to spare, and while Redis is unavailable, counts wait here, bounded.
 */
export function makeOutcomes({ redis, hasSpareRoom, metrics, random }: OutcomesOptions): Outcomes {
  let boot = newBoot();
  const sender = makeSender(redis, makeSealAddresses(redis), metrics, random);
  let clockMs = redis.clock.now() - redis.clock.monotonic();
  let minute = countMinute(boot, 0);
  let reasons = new Map<string, number>();
  let keptOfKeys = new Map<string, number>();
  let kept = 0;

  return {
    send,
    note(teamId, { route, ip = '' }, decision) {
      const { status, reason, lookup, limitedBy, wouldRefuse = [] } = decision;
      const owner = lookup ? ownerOf(lookup) : NOBODY;
      const call = { teamId, workspaceId: owner.workspaceId, keyId: owner.keyId, status, reason };
      for (const limit of wouldRefuse) count({ ...call, limit: nameOfLimit(limit), wouldRefuse: true });
      if (status === 'VALID') return;
      count({ ...call, limit: limitedBy ? nameOfLimit(limitedBy) : '', wouldRefuse: false });
      if (lookup) keep(owner, decision, { route: route ? hideSecrets(route) : '', address: ip });
    },
    noteKeyless: (teamId, reason) =>
      count({ workspaceId: '', keyId: '', teamId, status: 'INVALID', reason, limit: '', wouldRefuse: false }),
  };

  function count(call: CountedCall): void {
    if (!call.wouldRefuse) reasons.set(call.reason, (reasons.get(call.reason) ?? 0) + 1);
    const seconds = Math.floor((clockMs + redis.clock.monotonic()) / MINUTE_MS) * (MINUTE_MS / 1_000);
    if (seconds !== minute.minuteSeconds) {
      // Where the clock was set back, minutes come again: their counts must not replace those of before.
      if (seconds < minute.minuteSeconds) boot = newBoot();
      minute = countMinute(boot, seconds);
    }
    const cell = minute.count(call);
    if (cell) sender.addCount(cell);
    else metrics.droppedOutcomes.inc();
  }

  function keep(
    { workspaceId, keyId, meter }: Owner,
    decision: Decision,
    called: { route: string; address: string },
  ): void {
    const ofKey = keptOfKeys.get(keyId) ?? 0;
    if (ofKey >= MOST_OF_KEY || !sender.hasRoom()) return;
    keptOfKeys.set(keyId, ofKey + 1);
    kept += 1;
    const { status, reason, limitedBy } = decision;
    const { on, name, limit } = limitedBy ?? {};
    const refusal = { workspaceId, keyId, meter, status, reason, ...called };
    const [id, timeMs] = [`${boot}.${kept}`, Math.floor(clockMs + redis.clock.monotonic())];
    sender.addRefusal({ ...refusal, id, timeMs, limitedBy: limitedBy ? JSON.stringify({ on, name, limit }) : '' });
  }

  async function send(): Promise<void> {
    for (const [reason, calls] of reasons) metrics.refusals.inc({ reason }, calls);
    reasons = new Map();
    keptOfKeys = new Map();
    sender.forget();
    learnClock();
    if (hasSpareRoom()) await sender.send();
  }

  // By Redis's clock, like usage events.
  function learnClock(): void {
    const [node] = redis.byNode().keys();
    try {
      if (node) clockMs = node.notAfter(0) - redis.clock.monotonic();
    } catch {
      // Until Redis answers, what was known of it holds.
    }
  }
}

function newBoot(): string {
  return randomBytes(9).toString('base64url');
}

type Owner = { workspaceId: string; keyId: string; meter: string };

const NOBODY: Owner = { workspaceId: '', keyId: '', meter: '' };
const owners = new WeakMap<Lookup, Owner>();

/** Whose a looked-up key is. */
export function ownerOf(lookup: Lookup): Owner {
  const known = owners.get(lookup);
  if (known) return known;
  type Key = { apiKeyId: string; externalMeterId?: string };
  const { apiKeyId: keyId, externalMeterId: meter = '' } = JSON.parse(`{${lookup.keyPart}}`) as Key;
  const owner = { workspaceId: lookup.workspaceId, keyId, meter };
  owners.set(lookup, owner);
  return owner;
}

/** How counts name a limit: by its place and its name. */
function nameOfLimit({ on, name }: { on: string; name: string }): string {
  return `${on}/${name}`;
}
