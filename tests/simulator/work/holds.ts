import { ApiError } from '../../../shared/contract/errors.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import { newId } from '../../../shared/values/ids.ts';
import type { Capture, Hold } from '../model.ts';
import type { SimulatedVerify } from '../programs.ts';
import { answered } from '../clients.ts';
import type { Parts } from '../work.ts';

const MOST_TRIES = 4;
// What ends, or has just ended, may be seen either way.
const UNSURE_MS = 2_000;
// A settled hold is remembered for longer.
const REMEMBERED_MS = 24 * 3_600_000;

/** Credits that are held, captured and released, also twice, late, with another amount, and again when nobody answered. */
export function makeHolds({ simulation, home, fleet, model, breaks, known, askOne, decide, pickKey }: Parts) {
  const { random, say } = simulation;
  const { caller } = home;

  async function hold(): Promise<void> {
    const key = pickKey();
    const micros = model.newAmount();
    const onExpiry = random.pick(['release', 'charge'] as const);
    const asked = { expiresIn: random.pick([1, 10, 60]), onExpiry };
    const body = { key: key.text, billing: { usage: formatCredits(micros), hold: asked } };
    const idempotencyKey = random.chance(0.5) ? newId('evt') : undefined;
    const { losses } = model;
    let made: Hold | undefined;
    // Redis remembers who asked before, until it loses that.
    for (let tries = 0; tries === 0 || (idempotencyKey && losses === model.losses && tries < MOST_TRIES); tries++) {
      const asking = askOne(body, idempotencyKey);
      if (!asking) return;
      made ??= model.newHold(key.meter, micros, onExpiry === 'charge');
      const answer = await decide(asking, key, micros, tries > 0);
      if (answer?.hold) {
        if (made.id !== '' && made.id !== answer.hold.id && losses === model.losses)
          breaks(`a hold of ${micros} was made twice`);
        // Somebody may have extended it since.
        if (made.id === '') made.endsAtMs = answer.hold.expiresAt;
        Object.assign(made, { id: answer.hold.id, changedMs: simulation.passedMs() });
      } else if (answer && tries === 0) made.isOver = true;
      if (!random.chance(answer ? 0.2 : 0.7)) return;
    }
  }

  async function captureOne(of: Hold, micros: number): Promise<void> {
    let capture = of.captures.find((one) => one.micros === micros);
    const isNew = !capture;
    capture ??= { micros, state: 'undecided', isLate: true };
    if (isNew) of.captures.push(capture);
    const usage = formatCredits(micros);
    const error = await settle(of, `capture of ${micros}`, async ({ holds }) => {
      const { late } = JSON.parse(await holds.capture(caller, { holdId: of.id, usage })).capture;
      noteCaptured(of, capture, late as boolean);
    });
    if (error === 'first' && isNew) capture.state = 'none';
    if (error && capture.state === 'sure' && !of.mayBeLost && model.latestMs() - capture.atMs! < REMEMBERED_MS)
      breaks(`a hold was captured for ${micros}, and that was refused when it was asked for again`);
  }

  function noteCaptured(of: Hold, capture: Capture, isLate: boolean): void {
    const another = of.captures.find(({ state, micros }) => state === 'sure' && micros !== capture.micros);
    if (another && !of.mayBeLost) breaks(`a hold was captured for ${another.micros}, and for ${capture.micros}`);
    if (of.release === 'sure' && !of.mayBeLost) breaks(`a hold was released, and captured for ${capture.micros}`);
    Object.assign(capture, { state: 'sure', isLate });
    capture.atMs ??= model.latestMs();
    of.isOver = true;
  }

  async function releaseOne(of: Hold): Promise<void> {
    const before = of.release;
    if (before === 'none') of.release = 'undecided';
    const error = await settle(of, `release of ${of.micros}`, async ({ holds }) => {
      await holds.release(caller, { holdId: of.id });
      if (of.captures.some(({ state }) => state === 'sure') && !of.mayBeLost)
        breaks('a hold was captured, and released');
      // What had ended before was released by that, and can be captured.
      if (of.endsAtMs < Infinity && model.latestMs() < of.endsAtMs - UNSURE_MS) of.release = 'sure';
      of.isOver = true;
    });
    if (error === 'first' && of.release === 'undecided') of.release = before;
  }

  /** Asks until it is answered, or given up. Says whether it was refused, by the first answer or a later one. */
  async function settle(
    of: Hold,
    what: string,
    asking: (verifying: SimulatedVerify) => Promise<void>,
  ): Promise<'first' | 'later' | undefined> {
    for (let tries = 0; tries === 0 || (tries < MOST_TRIES && random.chance(0.6)); tries++) {
      const verifying = fleet.verify();
      if (!verifying) continue;
      try {
        await answered(verifying.process, asking(verifying));
        say(`${what} is done`);
        of.changedMs = simulation.passedMs();
        return undefined;
      } catch (error) {
        say(`${what}: ${known(error)}`);
        of.changedMs = simulation.passedMs();
        if (error instanceof ApiError && error.status < 500) return tries === 0 ? 'first' : 'later';
      }
    }
    return undefined;
  }

  function pick(isWanted: (one: Hold) => boolean): Hold | undefined {
    const holds = model.holds.filter((one) => one.id !== '' && isWanted(one));
    return holds.length === 0 ? undefined : random.pick(holds);
  }

  const isOpen = ({ captures, release }: Hold) => captures.length === 0 && release === 'none';

  return {
    actions: {
      hold,
      async capture() {
        const of = pick(isOpen);
        if (of) await captureOne(of, of.micros);
      },
      /** For less than was held, or more. */
      async captureOther() {
        const of = pick(isOpen);
        if (of) await captureOne(of, random.pick([1 + random.below(of.micros), of.micros + 1 + random.below(9)]));
      },
      /** For the same once more, or for another amount; or what was released. */
      async captureAgain() {
        const of = pick((one) => !isOpen(one));
        if (!of) return;
        const amounts = of.captures.map(({ micros }) => micros);
        await captureOne(of, random.pick([of.micros, of.micros + 1 + random.below(9), ...amounts, ...amounts]));
      },
      async captureLate() {
        const of = pick((one) => isOpen(one) && one.endsAtMs < model.latestMs());
        if (of) await captureOne(of, random.pick([of.micros, 1 + random.below(of.micros)]));
      },
      async release() {
        const of = pick((one) => isOpen(one) || random.chance(0.2));
        if (of) await releaseOne(of);
      },
      async extend() {
        const of = pick(isOpen);
        const verifying = fleet.verify();
        if (!of || !verifying) return;
        // Until it is answered nobody knows when it ends.
        const before = of.endsAtMs;
        of.endsAtMs = Infinity;
        const extending = verifying.holds.extend(caller, { holdId: of.id, expiresIn: 60 });
        const text = await answered(verifying.process, extending).catch((error: unknown) => {
          say(`extension of ${of.micros}: ${known(error)}`);
          return error instanceof ApiError && error.status < 500 ? '' : undefined;
        });
        if (text !== undefined) of.endsAtMs = text === '' ? before : Math.max(before, JSON.parse(text).hold.expiresAt);
      },
    },
  };
}
