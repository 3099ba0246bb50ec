import { amountOf, booleanOf, creditsOf, given, limitOf, nameOf, objectOf, reader, timeOf, type Of } from './fields.ts';
import type { Budget, Read } from './rows.ts';

const whenAndWho = ['created_at', 'updated_at', 'created_by', 'updated_by', 'last_active'];

/** A key of LiteLLM: the columns of LiteLLM_VerificationToken, or the fields of its list of keys. A token is the SHA-256 in hex. */
export const liteLlm = {
  columns: ['token'],
  lists: ['', 'keys', 'data'],
  aside: [...whenAndWho, 'model_spend', 'object_permission_id'],
  read(of: Of, now: number): Read {
    const token = of('token') ?? '';
    const [user, team, metadata] = [of('user_id'), of('team_id'), objectOf('metadata', of('metadata'))];
    const perMinute = of('rpm_limit');
    const budget = budgetOf(of, now);
    return {
      item: {
        name: nameOf(of('key_alias'), of('key_name'), 'LiteLLM key'),
        ...(token.startsWith('sk-')
          ? { key: token }
          : { hash: { algorithm: 'sha256', encoding: 'hex', value: token } }),
        ...given('customerId', user ?? team),
        ...given('expiresAt', timeOf('expires', of('expires'))),
        ...((metadata || team) && { metadata: { ...metadata, ...given('team_id', team) } }),
        ...(perMinute && limitOf('rpm_limit', perMinute, '60000')),
        enabled: !booleanOf('blocked', of('blocked')),
      },
      ...(budget && { budget }),
    };
  },
};

/**
 * One credit is one dollar. What is left of a budget lasts until its next reset, from which on each period has all of it. LiteLLM
 * resets a budget of 30 days on the first of each month, so its period is a month.
 */
function budgetOf(of: Of, now: number): Budget | undefined {
  const [most, duration] = [of('max_budget'), of('budget_duration')];
  const unplaced = { model_max_budget: of.raw('model_max_budget'), budget_id: of.raw('budget_id') };
  const without = reader(unplaced).others([]);
  const [spend, reset] = [of('spend') ?? '0', of('budget_reset_at')];
  if (most === undefined) return without.length > 0 ? { fields: without } : undefined;
  const names = ['max_budget', ...(duration ? ['budget_duration'] : [])];
  const whole = amountOf('max_budget', most);
  const credits = creditsOf(whole - amountOf('spend', spend));
  const every = duration && periods[duration];
  if (duration && !every) return { fields: [...names, ...without] };
  const resetAt = timeOf('budget_reset_at', reset);
  const schedule = { credits: creditsOf(whole), every, ...given('anchorAt', resetAt) };
  const isRunning = resetAt !== undefined && resetAt > now;
  const billing = {
    ...((!every || isRunning) && { credits, ...(every && { expiresAt: resetAt }) }),
    ...(every && schedule.credits !== '0' && { schedule }),
  };
  return { fields: names, billing, ...(without.length > 0 && { without }) };
}

const periods: Record<string, string> = {
  '24h': 'day',
  '1d': 'day',
  '7d': 'week',
  '1w': 'week',
  '30d': 'month',
  '1mo': 'month',
};
