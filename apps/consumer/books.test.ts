// What the books have of a record, read from the sums of days that are over and from the events of open days, compared with
// the plain reading of all events that it stands for.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Balance } from '../../shared/books/balances.ts';
import { readBooked, type BookedRecord, type ClassSums, type Sums } from '../../shared/books/sums/booked.ts';
import { findMissingNumbers } from '../../shared/books/reconciling/missing-numbers.ts';
import { dayOf, type UsageEvent } from '../../shared/events/event.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent, testLine, WORKSPACE } from '../../tests/helpers/events.ts';
import { makeRandom, type Random } from '../../tests/helpers/random.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';
import { rollUp } from './jobs/rollup.ts';

const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 2, 10, 12);
const DAYS = 6;
const never = new AbortController().signal;
const own = await makeConsumerWorld();

test('sums of days, and of what is open, say what all events say, of records that are read together or alone', async () => {
  const random = makeRandom(1);
  const records = Array.from({ length: 4 }, (_, i) => {
    const { billingId, events } = randomHistory(random);
    const workspaceId = `ws_${i % 3}`;
    return { billingId, workspaceId, events: events.map((event) => ({ ...event, workspaceId })) };
  });
  const eventsOf = (isOf: (i: number) => boolean) => records.filter((_, i) => isOf(i)).flatMap(({ events }) => events);
  const early = eventsOf((i) => i < 3);
  await own.book(NOON, early);
  await rollUp(own, NOON, never);
  // Late events mark their days again, and copies of events count once.
  await own.book(NOON, [...early.filter(() => random.chance(0.05)), ...eventsOf((i) => i === 3)]);
  for (let twice = 0; twice < 2; twice++) {
    const balances = records.map(({ billingId, workspaceId, events }) => {
      const balance = randomBalance(random, billingId, events);
      return { ...balance, billing: { ...balance.billing, workspaceId } };
    });
    const asked = balances.map((balance) => ({ ...balance.billing, counted: balance }));
    const together = await readBooked(own, asked);
    const alone = await readBooked(own, asked.slice(0, 1));
    for (const [i, balance] of balances.entries())
      for (const read of i === 0 ? [together, alone] : [together]) {
        const record = read.get(balance.billing.id)!;
        assert.equal(sorted(record), sorted(expected(records[i]!.events, balance, record.openDays)), `record ${i}`);
      }
  }
});

test('missing numbers are named with the events around them and their cost, within days, between days and at the end', async () => {
  for (let seed = 1; seed <= 2; seed++) {
    const random = makeRandom(seed);
    const { billingId, events } = randomHistory(random, { adjustments: false });
    const kept = events.filter((_, i) => i === 0 || random.chance(0.8));
    await own.book(NOON, kept);
    await rollUp(own, NOON, never);
    const sequences = [1, 2, 3].map((epoch): [number, number] => [epoch, highest(events, epoch)]);
    const balance = { ...balanceOf(billingId, 3, sequences), usedMicros: events.at(-1)!.usedMicros };
    const booked = (await readBooked(own, [{ ...balance.billing, counted: balance }])).get(billingId)!;
    const found = await findMissingNumbers(own.books, balance, booked);
    assert.equal(
      found.map(({ epoch, afterSequence, events: count, micros }) => [epoch, afterSequence, count, micros]),
      expectedGaps(events, kept),
      `seed ${seed}`,
    );
    for (const { epoch, afterSequence, afterEvent, beforeSequence, beforeEvent } of found) {
      const idOf = (sequence: number | undefined) =>
        kept.find((event) => event.epoch === epoch && event.sequence === sequence)?.id;
      assert.equal([afterEvent, beforeEvent], [idOf(afterSequence), idOf(beforeSequence)]);
    }
  }
});

function verification(billingId: string, timeMs: number, epoch: number, sequence: number, costMicros = 1): UsageEvent {
  return testEvent({ billingId, timeMs, day: dayOf(timeMs), epoch, sequence, costMicros, usedMicros: sequence });
}

/** Three epochs of up to 60 events over six days, the last one open; Redis's clock goes back now and then. */
function randomHistory(random: Random, { adjustments = true } = {}) {
  const billingId = newId('bill');
  const events: UsageEvent[] = [];
  const open = new Map<string, number>();
  let timeMs = NOON - (DAYS - 1) * DAY_MS;
  let used = 0;
  let number = 0;
  for (let epoch = 1; epoch <= 3; epoch++) {
    const length = random.between(1, 60);
    for (let sequence = 1; sequence <= length; sequence++) {
      timeMs = Math.min(NOON, timeMs + Math.floor(random.chance(0.03) ? -DAY_MS / 2 : random.next() * DAY_MS * 0.07));
      const costMicros = random.between(0, 4);
      const line = randomLine(random, verification(billingId, timeMs, epoch, sequence, costMicros), open);
      used += line.costMicros;
      events.push({ ...line, usedMicros: used, heldMicros: heldOf(open) });
      if (!adjustments || !random.chance(0.1)) continue;
      number += 1;
      used += 7;
      const day = dayOf(NOON - random.between(0, DAYS - 1) * DAY_MS);
      const where = { timeMs, day, epoch, sequence, number, costMicros: 7, keyId: '' };
      const after = { usedMicros: used, heldMicros: heldOf(open) };
      events.push(testEvent({ kind: 'adjustment', billingId, ...where, ...after }));
    }
  }
  return { billingId, events };
}

/** The verification, or in its place a line of another kind; `open` are the holds that are open then. */
function randomLine(random: Random, verified: UsageEvent, open: Map<string, number>): UsageEvent {
  const { billingId, timeMs, day, epoch, sequence, costMicros } = verified;
  const place = { billingId, timeMs, day, epoch, sequence };
  const kind = (['hold', 'capture', 'release', 'extension', 'correction', 'turn'] as const)[random.between(0, 11)];
  const [holdId, holdMicros = 0] = [...open][random.between(0, open.size - 1)] ?? [];
  if (kind === 'hold') {
    const line = testLine(kind, { ...place, holdMicros: random.between(1, 9) });
    open.set(line.holdId, line.holdMicros);
    return line;
  }
  if (kind === 'turn') return testLine(kind, place);
  if (!kind || holdId === undefined) return verified;
  if (kind === 'correction') return testLine(kind, { ...place, holdId, holdMicros: 0, costMicros: 2 - costMicros });
  if (kind !== 'extension') open.delete(holdId);
  return testLine(kind, { ...place, holdId, holdMicros, ...(kind === 'capture' && { costMicros }) });
}

function heldOf(open: Map<string, number>): number {
  return [...open.values()].reduce((sum, micros) => sum + micros, 0);
}

function highest(events: UsageEvent[], epoch: number): number {
  return Math.max(0, ...events.filter((event) => event.epoch === epoch).map(({ sequence }) => sequence));
}

function randomBalance(random: Random, billingId: string, events: UsageEvent[]): Balance {
  const epoch = random.between(2, 4);
  // Of the numbers of a day that is over, Redis has all or none: a shard that opens again does so in another epoch.
  const upTo = (most: number) => (random.chance(0.5) ? most : 0);
  const sequences = [1, 2, 3].slice(0, epoch).map((one): [number, number] => [one, upTo(highest(events, one))]);
  const adjustment = upTo(Math.max(0, ...events.map(({ number }) => number)));
  // A balance is read today.
  const atMs = NOON - Math.floor(random.next() * 0.4 * DAY_MS);
  return { ...balanceOf(billingId, epoch, sequences), adjustment, atMs };
}

function balanceOf(billingId: string, epoch: number, sequences: [number, number][]): Balance {
  const billing = { id: billingId, shard: 0, workspaceId: WORKSPACE, externalMeterId: '' };
  const nothing = { usedMicros: 0, counted: 0, adjustment: 0 };
  return { billing, atMs: 0, epoch, ...nothing, sequences: new Map(sequences) };
}

type Part = 'own' | 'ahead' | 'newer';

function partOf(event: UsageEvent, balance: Balance, openDays: string[]): Part {
  if (event.kind === 'adjustment') {
    if (event.number <= balance.adjustment) return 'own';
    return openDays.includes(event.day) && event.timeMs >= balance.atMs ? 'newer' : 'ahead';
  }
  if (event.epoch > balance.epoch) return 'newer';
  if (event.epoch < balance.epoch || event.sequence <= (balance.sequences.get(event.epoch) ?? 0)) return 'own';
  return event.timeMs < balance.atMs ? 'ahead' : 'newer';
}

function expected(events: UsageEvent[], balance: Balance, openDays: string[]) {
  const parts = (some: UsageEvent[]) => {
    const of = (part: Part) => sumsOf(some.filter((event) => partOf(event, balance, openDays) === part));
    return { own: of('own'), ahead: of('ahead') };
  };
  const numbered = events.filter(({ kind }) => kind !== 'adjustment');
  const epochs = [1, 2, 3].map((epoch) => ({ epoch, ...parts(numbered.filter((event) => event.epoch === epoch)) }));
  const adjustments = parts(events.filter(({ kind }) => kind === 'adjustment'));
  const known = events
    .filter((event) => partOf(event, balance, openDays) === 'own')
    .toSorted((a, b) => a.epoch - b.epoch || a.sequence - b.sequence || a.number - b.number);
  const last = known.at(-1);
  const lastMs = Math.max(0, ...known.map(({ timeMs }) => timeMs));
  const classes = new Map<number, ClassSums>();
  for (const { classes: changes, costMicros } of known)
    for (const [number = 0, used = 0, held = 0, expired = 0] of changes.length > 0 ? changes : [[1, costMicros]]) {
      const before = classes.get(number) ?? { usedMicros: 0, heldMicros: 0, expiredMicros: 0 };
      const { usedMicros, heldMicros, expiredMicros } = before;
      const after = {
        usedMicros: usedMicros + used,
        heldMicros: heldMicros + held,
        expiredMicros: expiredMicros + expired,
      };
      classes.set(number, after);
    }
  return { epochs, adjustments, lastMicros: last?.usedMicros, lastHeldMicros: last?.heldMicros ?? 0, classes, lastMs };
}

function sumsOf(events: UsageEvent[]): Sums {
  const numbers = events.map((event) => (event.kind === 'adjustment' ? event.number : event.sequence));
  return {
    micros: events.reduce((sum, { costMicros }) => sum + costMicros, 0),
    heldMicros: events.reduce((sum, event) => sum + heldChange(event), 0),
    numbers: events.length,
    last: Math.max(0, ...numbers),
  };
}

function heldChange({ kind, holdMicros }: UsageEvent): number {
  if (kind === 'capture' || kind === 'release') return -holdMicros;
  return kind === 'extension' ? 0 : holdMicros;
}

/** The parts to compare. An epoch all of whose events are newer is as if it were not there. */
function sorted({
  epochs,
  adjustments,
  lastMicros,
  lastHeldMicros,
  classes,
  lastMs,
}: Omit<BookedRecord, 'epochs' | 'openDays' | 'holdDays'> & {
  epochs: Omit<BookedRecord['epochs'][number], 'lastNumber'>[];
}) {
  const parts = epochs
    .map(({ epoch, own, ahead }) => ({ epoch, own, ahead }))
    .filter((one) => one.own.numbers + one.ahead.numbers > 0)
    .toSorted((a, b) => a.epoch - b.epoch);
  // Of classes that sum up to nothing there is no sum.
  const changed = [...classes].filter(([, one]) => Object.values(one).some((micros) => micros !== 0));
  return { parts, adjustments, lastMicros, lastHeldMicros, lastMs, classes: changed.toSorted(([a], [b]) => a - b) };
}

/** Epoch, number before, how many, and their cost, for each stretch of events that were not kept. */
function expectedGaps(events: UsageEvent[], kept: UsageEvent[]): (number | undefined)[][] {
  const gaps: (number | undefined)[][] = [];
  for (const epoch of [1, 2, 3]) {
    const ofEpoch = events.filter((event) => event.epoch === epoch);
    for (const [i, event] of ofEpoch.entries()) {
      if (kept.includes(event)) continue;
      const last = gaps.at(-1);
      const goesOn = i > 0 && !kept.includes(ofEpoch[i - 1]!);
      if (goesOn) {
        last![2]! += 1;
        last![3]! += event.costMicros;
      } else gaps.push([epoch, event.sequence - 1, 1, event.costMicros]);
    }
    // The cost of an epoch's missing end is known for the newest epoch only, and that of a missing start after it of none.
    const isEndMissing = (of: number) => !kept.includes(events.findLast((event) => event.epoch === of)!);
    const start = gaps.find((gap) => gap[0] === epoch && gap[1] === 0);
    if (start && [1, 2].some((before) => before < epoch && isEndMissing(before))) start[3] = undefined;
    if (isEndMissing(epoch) && epoch < 3) gaps.at(-1)![3] = undefined;
  }
  return gaps;
}
