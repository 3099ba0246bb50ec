import type { Alert } from '../../../../shared/contract/alerts.ts';
import { type ErrorDetail, invalidField } from '../../../../shared/contract/errors.ts';
import { slidingWindow } from '../../../../shared/stores/limits.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { creditsIn, type BillingRow } from './billings.ts';
import { jsonValue } from '../keys/keys.ts';

/** Alerts of a request as a parameter of type json; `undefined` and `null` as they are. Throws a 400 that names a wrong field. */
export function alertsValue(sql: Query, field: string, alerts: Alert[] | null | undefined) {
  return (
    alerts &&
    jsonValue(
      sql,
      alerts.map((alert, i) => checked(alert, `${field}/${i}`, alerts.slice(0, i))),
    )
  );
}

/** What an answer says besides of the alerts of a record: those that are never told, because they name no limit that it has. */
export function alertWarnings({ alerts, limits }: BillingRow): { warnings?: ErrorDetail[] } {
  const watched = new Set((limits ?? []).filter(({ per }) => !slidingWindow(per)).map(({ name }) => name));
  const message = 'names no limit of the record for days, a week, a month or a year, so the alert is never told';
  const warnings = (alerts ?? []).flatMap(({ when: { limit } }, i) =>
    limit === undefined || watched.has(limit) ? [] : [{ path: `/alerts/${i}/when/limit`, message }],
  );
  return warnings.length > 0 ? { warnings } : {};
}

function checked({ name, when }: Alert, path: string, before: Alert[]): Alert {
  if (before.some((other) => other.name === name))
    throw invalidField(`/${path}/name`, 'must be unique among the alerts');
  const { usedPercent, available, limit } = when;
  if (available !== undefined) {
    if (usedPercent !== undefined || limit !== undefined) throw invalidField(`/${path}/when`, ONE_OF);
    return { name, when: { available: formatCredits(creditsIn(`${path}/when/available`, available)) } };
  }
  if (usedPercent === undefined) throw invalidField(`/${path}/when`, ONE_OF);
  return { name, when: limit === undefined ? { usedPercent } : { limit, usedPercent } };
}

const ONE_OF = 'must have usedPercent, available, or limit with usedPercent';
