import { setTimeout as sleep } from 'node:timers/promises';
import { parseSignedCredits } from '../../shared/values/credits.ts';
import { must, type Customers } from '../helpers/customers.ts';
import { eventually, request, type World } from '../helpers/world.ts';
import type { StackCommand } from './stack-commands.ts';

const DAY_MS = 86_400_000;
// Captured or not, what of it was debited is known at the end alone: by then all have ended.
type Hold = {
  id: string;
  credits: number;
  onExpiry: 'release' | 'charge';
  state: 'open' | 'captured' | 'released';
  cost: number;
};
type Does<Name> = (command: Extract<StackCommand, { do: Name }>) => Promise<void>;
type Billing = Record<'totalCredits' | 'usedCredits' | 'availableCredits' | 'heldCredits' | 'expiredCredits', string>;
type Grant = Record<'state' | 'credits' | 'usedCredits' | 'expiredCredits' | 'remainingCredits', string>;

/** A billing record of a whole stack, with what its client knows that it used. Throws where the stack says another thing. */
export async function recordOfStack(world: World, customers: Customers, workspaceId: string) {
  const { key, meter } = await customers.meteredKey('5');
  const { id } = await customers.billing(meter);
  const path = `/api/v1/customer-billing/${id}`;
  const holds: Hold[] = [];
  const grants: string[] = [];
  let used = 0;
  let asked = 0;
  const url = () => (asked % 2 === 0 ? world.api.url : world.verify!.url);

  async function change(method: string, to: string, body: object) {
    const answer = await world.call(method, to, body, { headers: { 'Idempotency-Key': `${id} ${asked}` } });
    if (answer.body.billing) checkIdentity(answer.body.billing);
    return answer;
  }

  async function verify(billing: object) {
    const { body } = await must(200, customers.verify({ key, billing }, { url: url() }));
    if (!['VALID', 'USAGE_LIMITED', 'RATE_LIMITED'].includes(body.status))
      differ('a verification', body.status, 'VALID');
    checkIdentity(body.billing);
    return body;
  }

  async function settle(what: string, place: number, body: object) {
    const hold = holds[place % (holds.length || 1)];
    if (!hold) return undefined;
    const options = { token: world.team.token, body: { holdId: hold.id, ...body } };
    const answer = await request(`${url()}/api/v1/usage/${what}`, 'post', options);
    if (answer.status === 200) checkIdentity(answer.body.billing);
    else if (answer.status !== 409) differ(what, answer.text, '200 or 409');
    return { hold, isDone: answer.status === 200 };
  }

  const does: { [Name in StackCommand['do']]: Does<Name> } = {
    wait: ({ ms }) => sleep(ms),
    async grant({ credits, priority, beginsIn, lasts }) {
      const now = Date.now();
      const begins = beginsIn > 0 && { beginsAt: now + beginsIn };
      const ends = lasts > 0 && { expiresAt: now + beginsIn + lasts };
      const answer = await change('post', `${path}/grant`, { credits: String(credits), priority, ...begins, ...ends });
      if (answer.status === 201) grants.push(answer.body.grant.id);
    },
    async void({ grant }) {
      const one = grants[grant % (grants.length || 1)];
      if (one) await change('post', `${path}/grant/${one}/void`, { reason: 'a test' });
    },
    async schedule({ credits, most, turnsIn }) {
      const terms = { every: 'day', anchorAt: Date.now() + turnsIn - DAY_MS, rollover: { maxCredits: String(most) } };
      await change('post', `${path}/grant-schedule`, { credits: String(credits), ...terms });
    },
    async refill({ credits }) {
      const body = { workspaceId, externalMeterId: meter, refill: credits };
      await must(200, change('post', '/api/v1/customer-billing/refill', body));
    },
    async verify({ credits }) {
      if ((await verify({ usage: String(credits) })).status === 'VALID') used += credits;
    },
    async hold({ credits, seconds, onExpiry }) {
      const { hold } = await verify({ usage: String(credits), hold: { expiresIn: seconds, onExpiry } });
      if (hold) holds.push({ id: hold.id, credits, onExpiry, state: 'open', cost: 0 });
    },
    async capture({ hold: place, credits }) {
      const settled = await settle('capture', place, { usage: String(credits) });
      if (!settled) return;
      const { hold, isDone } = settled;
      if (hold.state === 'captured' && isDone !== (hold.cost === credits))
        differ('a capture again', `${hold.cost} and then ${credits}: ${isDone}`, String(!isDone));
      if (isDone) Object.assign(hold, { state: 'captured', cost: credits });
    },
    async release({ hold: place }) {
      const settled = await settle('release', place, {});
      if (!settled?.isDone) return;
      if (settled.hold.state === 'captured') differ('a release after the capture', '200', '409');
      settled.hold.state = 'released';
    },
    async extend({ hold: place, seconds }) {
      const settled = await settle('extend', place, { expiresIn: seconds });
      if (settled?.isDone && settled.hold.state !== 'open') differ('an extension after the end', '200', '409');
    },
    async adjust({ credits }) {
      const { status } = await change('post', `${path}/adjustment`, { amount: String(credits), reason: 'a test' });
      if (status === 201) used += credits;
    },
    async settings({ allowOverages, spendCap }) {
      await must(200, change('patch', path, { allowOverages, spendCap }));
    },
    async limits({ requests, credits }) {
      const limits = [
        { name: 'second', unit: 'requests', limit: requests, per: 'second' },
        { name: 'day', unit: 'credits', limit: String(credits), per: 'day' },
      ];
      await must(200, change('patch', path, { limits }));
    },
  };

  /** What it has used, as its client knows it, once all holds have ended. */
  const known = () =>
    holds.reduce((sum, { state, cost, credits, onExpiry }) => {
      return sum + (state === 'captured' ? cost : state === 'open' && onExpiry === 'charge' ? credits : 0);
    }, used);

  return {
    run(command: StackCommand): Promise<void> {
      asked += 1;
      return (does[command.do] as (command: StackCommand) => Promise<void>)(command);
    },
    /** Waits for the end of all holds, and proves the record by its books and its grants. */
    async prove(): Promise<void> {
      let found: string[] = [];
      const wanted = ['EXACT', '0', '0', '0'];
      await eventually(`${id} is proved`, async () => {
        const { heldCredits } = await customers.billing(meter);
        const answer = await world.call('get', `${path}/reconciliation`);
        // On a busy machine it may take too long: asked again, it is answered.
        if (answer.status === 503) return false;
        const { reconciliation } = (await must(200, Promise.resolve(answer))).body;
        // A record without grants that end has none to be proved by.
        const { status, heldDifference, grants } = reconciliation;
        found = [status, heldCredits, heldDifference, grants?.difference ?? '0'];
        return found.join() === wanted.join();
      }).catch((error: unknown) => differ(`the proof (${String(error)})`, found.join(), wanted.join()));
      const billing = (await customers.billing(meter)) as unknown as Billing;
      checkIdentity(billing);
      if (micros(billing.usedCredits) !== known() * 1e6) differ('used', billing.usedCredits, String(known()));
      checkGrants(billing, (await must(200, world.call('get', `${path}/grants?limit=200`))).body.grants);
    },
  };
}

/** The grants that have begun make total and expired, and none gave more than it has. */
function checkGrants(billing: Billing, grants: Grant[]): void {
  for (const { credits, usedCredits, expiredCredits, remainingCredits } of grants) {
    const parts = [usedCredits, expiredCredits, remainingCredits].map(micros);
    const whole = parts.some((part) => part < 0) || parts.reduce((sum, part) => sum + part, 0) > micros(credits);
    if (whole) differ('a grant', parts.join(), credits);
  }
  // One that was voided before it began never counted.
  const begun = grants.filter(({ state, usedCredits, expiredCredits }) =>
    state === 'VOIDED' ? micros(usedCredits) + micros(expiredCredits) > 0 : state !== 'PENDING',
  );
  const sum = (name: keyof Grant) => begun.reduce((total, grant) => total + micros(grant[name]), 0);
  if (sum('credits') !== micros(billing.totalCredits)) differ('total', billing.totalCredits, String(sum('credits')));
  if (sum('expiredCredits') !== micros(billing.expiredCredits))
    differ('expired', billing.expiredCredits, String(sum('expiredCredits')));
}

function checkIdentity({ totalCredits, usedCredits, availableCredits, heldCredits, expiredCredits }: Billing): void {
  const parts = [usedCredits, availableCredits, heldCredits, expiredCredits];
  const sum = parts.reduce((total, part) => total + micros(part), 0);
  if (sum !== micros(totalCredits)) differ('used, available, held and expired', parts.join(), totalCredits);
}

function micros(credits: string): number {
  return parseSignedCredits(credits) ?? NaN;
}

function differ(what: string, got: string, wanted: string): never {
  throw new Error(`${what}: ${got}, expected ${wanted}`);
}
