import type { Alert } from '../../../../shared/contract/alerts.ts';
import type { PackedAlert } from '../../../../shared/stores/account-settings.ts';
import { parseCredits } from '../../../../shared/values/credits.ts';

/** Alerts of a row, which the api has checked, as settings have them. */
export function packedAlerts(alerts: readonly Alert[]): PackedAlert[] {
  return alerts.map(({ name, when: { usedPercent = 0, available, limit } }) => {
    if (available !== undefined) return { name, kind: 'available', value: parseCredits(available)! };
    if (limit !== undefined) return { name, kind: 'limit', value: usedPercent, limit };
    return { name, kind: 'usedPercent', value: usedPercent };
  });
}
