import {
  amountOf,
  booleanOf,
  creditsOf,
  given,
  limitOf,
  nameOf,
  objectOf,
  othersIn,
  reader,
  timeOf,
} from './fields.ts';
import type { Budget, Found } from './rows.ts';

/** A key of LiteLLM: the columns of LiteLLM_VerificationToken, or the fields of its list of keys. A token is the SHA-256 in hex. */
export function ofLiteLlm(fields: Record<string, unknown>, now: number): Found {
  const of = reader(fields);
  const token = of('token') ?? '';
  const [team, metadata] = [of('team_id'), objectOf('metadata', of('metadata'))];
  const perMinute = of('rpm_limit');
  const budget = budgetOf(fields, now);
  return {
    item: {
      name: nameOf(of('key_alias'), of('key_name'), 'LiteLLM key'),
      ...(token.startsWith('sk-') ? { key: token } : { hash: { algorithm: 'sha256', encoding: 'hex', value: token } }),
      ...given('customerId', of('user_id') ?? team),
      ...given('expiresAt', timeOf('expires', of('expires'))),
      ...((metadata || team) && { metadata: { ...metadata, ...given('team_id', team) } }),
      ...(perMinute && limitOf('rpm_limit', perMinute, '60000')),
      enabled: !booleanOf('blocked', of('blocked')),
    },
    ...(budget && { budget }),
    lost: othersIn(fields, known),
  };
}

const carried = ['token', 'key_alias', 'key_name', 'user_id', 'team_id', 'metadata', 'expires', 'rpm_limit', 'blocked'];
const budgets = ['max_budget', 'spend', 'budget_duration', 'budget_reset_at', 'model_max_budget', 'budget_id'];
const aside = [
  'created_at',
  'updated_at',
  'created_by',
  'updated_by',
  'last_active',
  'model_spend',
  'object_permission_id',
];
const known = [...carried, ...budgets, ...aside];

/**
 * One credit is one dollar. What is left of a budget lasts until its next reset, from which on each period has all of it. LiteLLM
 * resets a budget of 30 days on the first of each month, so its period is a month.
 */
function budgetOf(fields: Record<string, unknown>, now: number): Budget | undefined {
  const of = reader(fields);
  const [most, duration] = [of('max_budget'), of('budget_duration')];
  const without = othersIn({ model_max_budget: fields['model_max_budget'], budget_id: fields['budget_id'] }, []);
  if (most === undefined) return without.length > 0 ? { fields: without } : undefined;
  const names = ['max_budget', ...(duration ? ['budget_duration'] : [])];
  const whole = amountOf('max_budget', most);
  const credits = creditsOf(whole - amountOf('spend', of('spend') ?? '0'));
  const every = duration && periods[duration];
  if (duration && !every) return { fields: [...names, ...without] };
  const resetAt = timeOf('budget_reset_at', of('budget_reset_at'));
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
