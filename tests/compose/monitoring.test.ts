// Prometheus and Grafana read only metrics that exist.
import { globSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readText } from '../helpers/read-text.ts';
import { parse } from 'yaml';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { ourServices, readComposeFile } from './helpers/compose-file.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { statuses } from '../../shared/verification/operation.ts';
import { metricsOf, readRules } from '../monitoring/helpers/rules.ts';

type Panel = { title: string; datasource: { uid: string }; targets: { expr: string; legendFormat: string }[] };
type Scraping = { scrape_configs: { job_name: string; dns_sd_configs: { names: string[]; port: number }[] }[] };

const file = readComposeFile();
const readPanels = (path: string) => (JSON.parse(readText(path)) as { panels: Panel[] }).panels;
const dashboards = globSync('deploy/grafana/dashboards/*.json', { cwd: checkout }).toSorted();
const allPanels = dashboards.flatMap(readPanels);
const rules = readRules();
const metrics = await makeMetrics('test').registry.getMetricsAsJSON();
const series = new Set(
  metrics.flatMap(({ name, type }) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  ),
);

test('Prometheus scrapes all containers of each program on its OPS_PORT', () => {
  const { scrape_configs } = parse(readText('deploy/prometheus.yml')) as Scraping;
  const scraped = scrape_configs.flatMap(({ dns_sd_configs }) =>
    dns_sd_configs.flatMap(({ names, port }) => names.map((name) => [name, port])),
  );
  const programs = ourServices(file).filter(([name]) => name !== 'migrate');
  const wanted = programs.map(([name, { environment }]) => [name, environment!.OPS_PORT]);
  assert.equal(scraped, wanted);
  const own = file.services.prometheus!.networks!;
  for (const [name, { networks = [] }] of programs)
    assert.is(networks.filter((network) => own.includes(network)).length, 1, `${name} has one address there`);
});

test('dashboards and rules use only metrics and statuses that a program has, and series that a rule records', () => {
  const used = [
    ...allPanels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ where: title, expr }))),
    ...rules.recordings.map(({ record, expr }) => ({ where: record, expr })),
    ...rules.alerts.map(({ alert, expr }) => ({ where: alert, expr })),
  ];
  assert.ok(used.length > 40);
  const recorded = new Set(rules.recordings.map(({ record }) => record));
  const known = new Set<string>([...statuses, 'UNDECIDED']);
  for (const { where, expr } of used) {
    const listed = [...expr.matchAll(/\{[^}]*\bstatus[!=~]+"([A-Z_|]+)"/g)].flatMap(([, list = '']) => list.split('|'));
    assert.equal(
      [
        metricsIn(expr).filter((name) => !series.has(name)),
        (expr.match(/\bkeytally:[\w:]+/g) ?? []).filter((name) => !recorded.has(name)),
        listed.filter((status) => !known.has(status)),
      ],
      [[], [], []],
      where,
    );
  }
});

test('the table of the operations page has each rule, its severity and time, and no other, and names metrics that a rule uses', () => {
  const page = readText('docs/operations.md');
  const [, table = ''] = /^## Alerts\n([^]*?)^##/m.exec(page) ?? [];
  const rows = table.split('\n').filter((line) => line.startsWith('| `'));
  const told = rows.flatMap((row) => [...row.matchAll(/`(Keytally\w+)` \((page|ticket), (at once|\w+)\)/g)]);
  assert.equal(
    told.map(([, ...rule]) => rule.join()).toSorted(),
    rules.alerts.map((rule) => [rule.alert, rule.labels.severity, rule.for ?? 'at once'].join()).toSorted(),
  );
  const ruled = rules.alerts.flatMap(({ expr }) => metricsOf(expr, rules));
  for (const name of rows.flatMap((row) => metricsIn(row.split(' | ')[1]!)))
    assert.ok(
      [name, `${name}_count`, `${name}_bucket`].some((one) => ruled.includes(one)),
      `no alert in deploy/prometheus/alerts.yml uses ${name}`,
    );
  for (const { alert, annotations } of rules.alerts) {
    const [path = '', anchor = ''] = annotations.runbook.split('#');
    assert.match(readText(path), new RegExp(`^##+ ${anchor.replaceAll('-', '.')}$`, 'im'), alert);
  }
});

function metricsIn(expression: string): string[] {
  return expression.match(/\b(keytally|process|nodejs)_\w+/g) ?? [];
}
