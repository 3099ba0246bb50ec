import type { Permission } from '../../../../../shared/contract/caller.ts';
import { addressOf, askEarly, type Question, type Session } from '../../data/call.ts';
import { DAY_MS, dayOf } from '../../data/periods.ts';
import { spanUntil } from '../../data/spans.ts';

export const SHOWN = 8;
export const DAYS = 30;
// More than a record can have: the list then begins with those that have the least.
const MOST_CREDITS = '9000000000';
const QUARTER_MS = 900_000;

/** Asks what the overview is going to read, as far as the session may, if the address is that of the overview. */
export function askOverviewEarly({ permissions }: Session): void {
  const [, id] = /^\/console\/w\/([\w-]+)(?:\/(?:overview)?)?$/.exec(location.pathname) ?? [];
  if (id === undefined) return;
  const questions: readonly (readonly [needs: Permission, ...Question[]])[] = [
    ['usage:read', callsOfHour(id), ...hitLimits(id, 'limit,key'), lastUsage(id, lastDays())],
    ['billing:read', lowCustomers(id), proofOf(id)],
    ['webhook:read', webhooks()],
  ];
  for (const [needs, ...all] of questions)
    if (permissions.includes(needs)) for (const question of all) void askEarly(addressOf(question));
}

// What `useOutcomes` asks.
function callsOfHour(workspaceId: string): Question {
  return ['get /api/v1/verifications', { workspaceId, groupBy: 'status', ...spanUntil(Date.now(), 'hour').asked }];
}

/** The customers with the least left. */
export function lowCustomers(id: string) {
  const input = { id, availableBelow: MOST_CREDITS, limit: SHOWN };
  return ['get /api/v1/workspace/{id}/customer-billings', input] as const;
}

/** Which limits refused calls in the last 24 hours: one question for each reason that names a limit. */
export function hitLimits(workspaceId: string, groupBy: 'limit' | 'limit,key') {
  const endMs = Math.ceil(Date.now() / QUARTER_MS) * QUARTER_MS;
  const [from, to] = [new Date(endMs - DAY_MS).toISOString(), new Date(endMs).toISOString()];
  const input = { workspaceId, from, to, interval: 'day' as const, groupBy };
  return (['RATE_LIMIT', 'LIMIT_REACHED'] as const).map(
    (reason) => ['get /api/v1/verifications', { ...input, reason }] as const,
  );
}

/** The webhooks of the team. */
export function webhooks() {
  return ['get /api/v1/webhook', { limit: 100 }] as const;
}

/** Whether the books were proved. */
export function proofOf(id: string) {
  return ['get /api/v1/workspace/{id}/proof', { id }] as const;
}

/** The usage from one day to another, by name. */
export function lastUsage(workspaceId: string, [from, to]: readonly [from: string, to: string]) {
  return ['get /api/v1/usage', { workspaceId, from, to, groupBy: 'usageName', limit: 10_000 }] as const;
}

/** The first and the last of the days that the overview shows. */
export function lastDays(): readonly [from: string, to: string] {
  return [dayOf(Date.now() - (DAYS - 1) * DAY_MS), dayOf(Date.now())];
}
