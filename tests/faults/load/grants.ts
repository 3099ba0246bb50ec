import { formatCredits } from '../../../shared/values/credits.ts';
import type { ChangeLoad } from './change-load.ts';
import type { Meter } from './participants.ts';

const DAY_MS = 86_400_000;
// The running period of the schedule ends so long after it is made, and the next one begins.
const TURNS_AFTER_MS = 4_000;

/** Grants credits that end soon, and voids some of them. */
export async function grantSoon({ manager, random }: ChangeLoad, { billing }: Meter, number: number): Promise<void> {
  const amountMicros = random.between(1, 4) * 1_000_000;
  const name = `grant-${number}`;
  const now = Date.now();
  const beginsAt = random.chance(0.4) ? now + random.between(200, 1_200) : undefined;
  const made = await manager.insist({
    what: 'grant.create',
    of: billing,
    method: 'post',
    path: `/customer-billing/${billing}/grant`,
    body: {
      credits: formatCredits(amountMicros),
      name,
      priority: random.pick([10, 50, 50]),
      ...(beginsAt !== undefined && { beginsAt }),
      expiresAt: (beginsAt ?? now) + random.between(1_000, 2_500),
    },
    detail: { name, amountMicros },
  });
  if (!made || !random.chance(0.3)) return;
  const { id } = made.grant!;
  await manager.insist({
    what: 'grant.void',
    of: billing,
    method: 'post',
    path: `/customer-billing/${billing}/grant/${id}/void`,
    body: { reason: 'a fault' },
    detail: { name },
  });
}

/** A schedule of days, of which one ends while the traffic is under way; some of what is left rolls over. */
export async function grantBySchedule({ manager }: ChangeLoad, { billing }: Meter): Promise<void> {
  await manager.insist({
    what: 'schedule.create',
    of: billing,
    method: 'post',
    path: `/customer-billing/${billing}/grant-schedule`,
    body: {
      credits: '5',
      every: 'day',
      anchorAt: Date.now() + TURNS_AFTER_MS - DAY_MS,
      name: 'daily',
      rollover: { maxCredits: '1.5' },
    },
  });
}
