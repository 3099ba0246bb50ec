// Prometheus and Grafana read only metrics that exist.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { ourServices, readComposeFile } from './helpers/compose-file.ts';
import { checkout } from '../../apps/stack/process/home.ts';

type Panel = { title: string; datasource: { uid: string }; targets: { expr: string; legendFormat: string }[] };
type Scraping = { scrape_configs: { job_name: string; dns_sd_configs: { names: string[]; port: number }[] }[] };

const DASHBOARD = 'deploy/grafana/dashboards/keytally.json';

const file = readComposeFile();
const { panels } = JSON.parse(read(DASHBOARD)) as { panels: Panel[] };
const metrics = await makeMetrics('test').registry.getMetricsAsJSON();
const series = new Set(
  metrics.flatMap(({ name, type }) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  ),
);

test('Prometheus scrapes all containers of each program on its OPS_PORT', () => {
  const { scrape_configs } = parse(read('deploy/prometheus.yml')) as Scraping;
  const scraped = scrape_configs.flatMap(({ dns_sd_configs }) =>
    dns_sd_configs.flatMap(({ names, port }) => names.map((name) => [name, port])),
  );
  const programs = ourServices(file).filter(([name]) => name !== 'migrate');
  assert.equal(
    scraped,
    programs.map(([name, { environment }]) => [name, environment!.OPS_PORT]),
  );
  const own = file.services.prometheus!.networks!;
  for (const [name, { networks = [] }] of programs)
    assert.is(networks.filter((network) => own.includes(network)).length, 1, `${name} has one address there`);
});

test('the dashboard shows only metrics that a program has', () => {
  const shown = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => metricsIn(expr)));
  assert.ok(new Set(shown).size > 10);
  for (const name of shown) assert.ok(series.has(name), `${DASHBOARD} shows ${name}, which no program has`);
});

test('every metric of our own is on the dashboard', () => {
  const shown = new Set(panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => metricsIn(expr))));
  for (const { name } of metrics.filter((one) => one.name.startsWith('keytally_'))) {
    assert.ok(
      [name, `${name}_bucket`, `${name}_count`].some((one) => shown.has(one)),
      `${name} is missing in ${DASHBOARD}: add a panel that shows it`,
    );
  }
});

test('the dashboard uses only labels that its metrics have', () => {
  // Prometheus adds two labels, and renames a label of ours that collides with one of its own.
  const ofAll = ['le', 'program', 'instance'];
  const source = read('shared/runtime/metrics.ts');
  const labels = [...source.matchAll(/labelNames: \[([^\]]*)\]/g)].flatMap(([, list]) =>
    [...list!.matchAll(/'(\w+)'/g)].map(([, label]) => (label === 'job' ? 'exported_job' : label!)),
  );
  for (const { title, targets } of panels) {
    for (const { expr, legendFormat } of targets) {
      const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(', '));
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!);
      for (const label of [...grouped, ...shown])
        assert.ok([...ofAll, ...labels].includes(label), `${title}: ${label}`);
    }
  }
});

test('Grafana finds its data source and its dashboards', () => {
  const { datasources } = parse(read('deploy/grafana/provisioning/datasources/prometheus.yml')) as {
    datasources: { uid: string; url: string }[];
  };
  assert.is(datasources[0]?.url, 'http://prometheus:9090');
  for (const { title, datasource } of panels) assert.is(datasource.uid, datasources[0]?.uid, title);

  const { providers } = parse(read('deploy/grafana/provisioning/dashboards/keytally.yml')) as {
    providers: { options: { path: string } }[];
  };
  const { volumes = [], environment } = file.services.grafana!;
  assert.ok(volumes.includes(`./deploy/grafana/dashboards:${providers[0]?.options.path}:ro`));
  assert.is(environment?.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH, `${providers[0]?.options.path}/keytally.json`);
});

test.run();

function metricsIn(expression: string): string[] {
  return expression.match(/\b(keytally|process|nodejs)_\w+/g) ?? [];
}

function read(path: string): string {
  return readFileSync(join(checkout, path), 'utf8');
}
