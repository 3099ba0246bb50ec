import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { checkout } from '../../../apps/stack/process/home.ts';

export type Alert = {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; runbook: string };
};
type Recording = { record: string; expr: string };
type RuleFile = { groups: { name: string; rules: (Alert | Recording)[] }[] };

/** The files of rules that Prometheus reads. */
export const ruleFiles = ['recording.yml', 'alerts.yml'].map((name) => join(checkout, 'deploy/prometheus', name));

/** All rules for Prometheus. */
export function readRules(): { alerts: Alert[]; recordings: Recording[] } {
  const rules = ruleFiles.flatMap((file) =>
    (parse(readFileSync(file, 'utf8')) as RuleFile).groups.flatMap((group) => group.rules),
  );
  return { alerts: rules.filter((rule) => 'alert' in rule), recordings: rules.filter((rule) => 'record' in rule) };
}

/** The metrics of our programs in an expression, also those from which a recorded series in it is made. */
export function metricsOf(expression: string, { recordings } = readRules()): string[] {
  const recorded: string[] = expression.match(/\bkeytally:[\w:]+/g) ?? [];
  const made = recordings.filter(({ record }) => recorded.includes(record));
  return [
    ...(expression.match(/\b(keytally|process|nodejs)_\w+/g) ?? []),
    ...made.flatMap(({ expr }) => metricsOf(expr, { alerts: [], recordings })),
  ];
}
