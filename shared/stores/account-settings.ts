import { createHash } from 'node:crypto';
import type { Limit } from '../contract/limits.ts';
import { END } from './fields.ts';
import { withOwnLimits } from './limits.ts';
import { packRecord } from './records.ts';

// The settings of a billing record with classes of credits, as scripts read them (lua/parts/settings.lua).

/** All grants of one priority and end. A grant that rolls over is a class of its own, and parts the older from the younger. */
export type CreditClass = {
  /** Its name: what decides between classes of one priority and end comes first, then priority and end. */
  ref: string;
  /** By which lines and sums name it: `PLAIN_NUMBER` of the plain class, then from 2 on within its record. */
  number: number;
  priority: number;
  /** `NEVER` without one. */
  endsAtMs: number;
  /** The end that it gets when it ends for the first time; 0: it does not roll over. Then at most so much is left of it. */
  rollEndsAtMs: number;
  rollMaxMicros: number;
  /** The version of the settings that had it first. */
  firstVersion: number;
  /** The sum of all its grants that have begun, ever: a voided one stays in it. */
  begunMicros: number;
  pending: { beginsAtMs: number; micros: number }[];
};

/** An instant that does not come. */
export const NEVER = 9_000_000_000_000_000;

/** The class of credits that a record without others has: what was bought, without an end. */
export const PLAIN_CLASS = `${'b'.padStart(17, '0')}:50:${NEVER}`;

export const PLAIN_NUMBER = 1;

/** When an alert of an account is crossed: at so much of its credits used, at so little left, or by what a limit counts. */
export type PackedAlert = { name: string } & (
  | { kind: 'usedPercent'; value: number }
  /** Micro-credits. */
  | { kind: 'available'; value: number }
  /** Percent of a limit, by its name. */
  | { kind: 'limit'; value: number; limit: string }
);

// lua/parts/account-state.lua has the same names.
const ENDS = ['endsAtMs', 'rollEndsAtMs', 'rollMaxMicros'] as const;
const DECLARED = ['ref', 'number', 'priority', ...ENDS, 'firstVersion', 'begunMicros'] as const;

/** Packs the settings of a billing record that has classes; without alerts of its own it has its workspace's. */
export function packAccountSettings(
  settings: { version: number; billingId: string; answerPart: string; limits?: readonly Limit[] | null },
  classes: readonly CreditClass[],
  alerts?: readonly PackedAlert[],
): string {
  const limitMicros = withOwnLimits('', settings.limits ?? null) || ACCOUNT;
  const packed = classes.map((one) => [
    ...DECLARED.map((name) => one[name]),
    one.pending.map(({ beginsAtMs, micros }) => [beginsAtMs, micros]),
  ]);
  return (
    packRecord('billing', { ...settings, limitMicros }) +
    JSON.stringify(packed) +
    END +
    (alerts ? JSON.stringify(alerts) : '')
  );
}

/** An alert on a limit, with its place among the alerts of the record, from 1. */
export type LimitAlert = { place: number; percent: number; limit: string };

/** The alerts on limits that a billing record has, of its own or of its workspace, by their records in Redis. */
export function limitAlertsOf(billingRecord: string, workspaceRecord: string): LimitAlert[] {
  const [, , limitMicros = '', , , own] = billingRecord.split(END);
  // Behind the three fields of a workspace's record comes the mark.
  const text = (hasClasses(limitMicros) && own) || workspaceRecord.split(END)[4] || '[]';
  const alerts = JSON.parse(text) as PackedAlert[];
  return alerts.flatMap((alert, i) =>
    alert.kind === 'limit' ? [{ place: i + 1, percent: alert.value, limit: alert.limit }] : [],
  );
}

/** What stands behind the record of a workspace with default alerts: a mark of them, by which a lookup is another one, and the alerts. */
export function packDefaultAlerts(alerts: readonly PackedAlert[]): string {
  if (alerts.length === 0) return '';
  const packed = JSON.stringify(alerts);
  return `.${createHash('sha256').update(packed).digest('base64url').slice(0, 12)}${END}${packed}`;
}

/** Whether the settings of a billing record have classes. */
export function hasClasses(limitMicros: string): boolean {
  return limitMicros.startsWith(ACCOUNT);
}

/** What the limit of a record with classes begins with; its limits over windows stand behind it. */
const ACCOUNT = '@';
