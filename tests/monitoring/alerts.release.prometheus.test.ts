// The rules for Prometheus by promtool: each alert fires when it should, and only then.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { readRules, ruleFiles } from './helpers/rules.ts';

const folder = process.env.TEST_FOLDER ?? '';
const promtool = (...args: string[]) => promisify(execFile)('promtool', args, { cwd: folder });
const { alerts } = readRules();
test.before(() => void mkdirSync(folder, { recursive: true }));

/** Values of series as promtool writes them (`0+2x9`: nine steps of 2, each a minute), and the labels that the alert then has. */
type Case = { at: string; fires: Series | Series[]; quiet: Series; labels?: Record<string, string> };
type Series = Record<string, string>;

const gauge = (name: string, ...[firing, quiet]: [number, number]): Omit<Case, 'at'> => ({
  fires: { [`${name}{program="consumer",instance="a"}`]: `0x4 ${firing}x200` },
  quiet: { [`${name}{program="consumer",instance="a"}`]: `${quiet}x200` },
});
const counter = (name: string): Omit<Case, 'at'> => ({
  fires: { [`${name}{program="consumer"}`]: '0x4 1x200' },
  quiet: { [`${name}{program="consumer"}`]: '1x200' },
});
// Also what a program counts before its first scrape.
const fromStart = (name: string): Omit<Case, 'at'> => {
  const { fires, quiet } = counter(name);
  const begun = (seconds: number): Series => ({ 'process_start_time_seconds{program="consumer"}': `${seconds}x200` });
  return { fires: [fires as Series, { ...quiet, ...begun(240) }], quiet: { ...quiet, ...begun(-3600) } };
};
const tries = (failed: number, of: number): Series => ({
  'keytally_webhook_failing{program="webhooks"}': '2x130',
  'keytally_webhook_tries_total{program="webhooks",outcome="failed"}': `0+${failed}x130`,
  'keytally_webhook_tries_total{program="webhooks",outcome="delivered"}': `0+${of - failed}x130`,
});
const verifications = (undecided: number, of: number): Series => ({
  'keytally_verifications_total{program="verify",status="VALID"}': `0+${of - undecided}x130`,
  'keytally_verifications_total{program="verify",status="UNDECIDED"}': `0+${undecided}x130`,
});
const requests = (slow: number, of: number): Series => ({
  'keytally_http_request_seconds_bucket{program="verify",route="/v",status="200",le="0.025"}': `0+${of - slow}x130`,
  'keytally_http_request_seconds_bucket{program="verify",route="/v",status="200",le="+Inf"}': `0+${of}x130`,
  'keytally_http_request_seconds_count{program="verify",route="/v",status="200"}': `0+${of}x130`,
});
const deliveries = (soon: number, of: number): Series => ({
  'keytally_webhook_delay_seconds_bucket{program="webhooks",le="10"}': `0+${soon}x130`,
  'keytally_webhook_delay_seconds_count{program="webhooks"}': `0+${of}x130`,
});
const memory = (percent: number): Series => ({
  'keytally_redis_memory_bytes{program="api",server="r:1"}': `${percent}x20`,
  'keytally_redis_memory_bytes{program="verify",server="r:1"}': `${percent - 1}x20`,
  'keytally_redis_memory_limit_bytes{program="api",server="r:1"}': '100x20',
});
// The relay has no limit.
const outbox = (events: number): Series => ({
  'keytally_outbox_entries{program="relay"}': `0x4 ${events}x20`,
  'keytally_outbox_max_entries{program="relay"}': '0x24',
  'keytally_outbox_max_entries{program="verify"}': '100000000x24',
});
const up = (job: string, values: string): Series => ({ [`up{job="${job}",instance="a:1"}`]: values });

const cases: Record<string, Case> = {
  KeytallyProgramDown: {
    at: '4m',
    fires: up('relay', '1 0x9'),
    quiet: up('relay', '1 0 1x9'),
    labels: { job: 'relay', instance: 'a:1' },
  },
  KeytallyNoVerify: { at: '4m', fires: { ...up('verify', '0x9'), ...up('api', '1x9') }, quiet: up('verify', '1x9') },
  KeytallyNoConsumer: { at: '9m', fires: up('api', '1x9'), quiet: up('consumer', '1x9') },
  KeytallyNoApi: { at: '9m', fires: up('verify', '1x9'), quiet: up('api', '1x9') },
  KeytallyNoRelay: { at: '9m', fires: up('relay', '1 1 0x9'), quiet: up('api', '1x9') },
  KeytallyNoWebhooks: { at: '9m', fires: up('api', '1x9'), quiet: up('webhooks', '1x9') },
  KeytallyNoShardOpen: {
    at: '9m',
    fires: { 'keytally_open_shards{program="verify"}': '64x4 0x9', 'keytally_open_shards{program="api"}': '64x20' },
    quiet: {
      'keytally_open_shards{program="verify",instance="a"}': '0x20',
      'keytally_open_shards{program="verify",instance="b"}': '1x20',
    },
  },
  KeytallyVerifyErrorsFast: { at: '30m', fires: verifications(2, 100), quiet: verifications(5, 1000) },
  KeytallyVerifyErrorsSlow: { at: '1h', fires: verifications(4, 1000), quiet: verifications(2, 1000) },
  KeytallyVerifyErrorsLong: { at: '2h', fires: verifications(6, 10_000), quiet: verifications(4, 10_000) },
  KeytallyVerifySlow: { at: '30m', fires: requests(20, 100), quiet: requests(10, 100) },
  KeytallyVerifySlowLong: { at: '2h', fires: requests(2, 100), quiet: requests(5, 1000) },
  KeytallyBooksNotFresh: {
    at: '2h',
    fires: { 'keytally_consumer_lag_seconds{program="consumer"}': '0x99 90x30' },
    quiet: { 'keytally_outbox_age_seconds{program="api"}': '50x130' },
  },
  KeytallyBooksDiffer: { at: '6m', ...gauge('keytally_reconcile_differences', 1, 0) },
  KeytallyBooksUndecided: { at: '22m', ...gauge('keytally_reconcile_undecided', 1, 0) },
  KeytallyBooksNotCompared: { at: '22m', ...gauge('keytally_reconcile_age_seconds', 10_801, 10_799) },
  KeytallyUsageLost: { at: '6m', ...counter('keytally_lost_events_total') },
  KeytallyRecordsFailing: { at: '11m', ...gauge('keytally_unsettled_records_failing', 1, 0) },
  KeytallyRecordsUnsettled: {
    at: '60m',
    fires: { 'keytally_unsettled_records{program="api"}': '500x100' },
    quiet: { 'keytally_unsettled_records{program="api"}': '500-1x100' },
  },
  KeytallyUnreadableEvents: { at: '6m', ...fromStart('keytally_unreadable_events_total') },
  KeytallyJobFails: {
    at: '6m',
    fires: { 'keytally_job_seconds_count{exported_job="rollup",outcome="failed"}': '1x4 2x9' },
    quiet: { 'keytally_job_seconds_count{exported_job="rollup",outcome="done"}': '1x4 2x9' },
    labels: { exported_job: 'rollup' },
  },
  KeytallyOutboxOld: { at: '12m', ...gauge('keytally_outbox_age_seconds', 61, 59) },
  KeytallyOutboxFills: { at: '8m', fires: outbox(50_000_001), quiet: outbox(49_999_999) },
  KeytallyUnrecordedVerifications: { at: '6m', ...counter('keytally_unrecorded_verifications_total') },
  KeytallyOutcomesDropped: { at: '6m', ...counter('keytally_dropped_outcomes_total') },
  KeytallyConsumerLags: { at: '18m', ...gauge('keytally_consumer_lag_seconds', 61, 59) },
  KeytallyWebhooksLate: { at: '30m', fires: deliveries(98, 100), quiet: deliveries(995, 1000) },
  KeytallyMetersLate: { at: '38m', ...gauge('keytally_meter_lag_seconds', 21_601, 21_600) },
  KeytallyWebhooksStandStill: { at: '12m', ...gauge('keytally_webhook_due_seconds', 301, 300) },
  KeytallyWebhooksFail: { at: '100m', fires: tries(51, 100), quiet: tries(50, 100) },
  KeytallyKafkaLags: { at: '18m', ...gauge('keytally_kafka_lag_events', 1_000_001, 999_999) },
  KeytallyRedisMemory: { at: '9m', fires: memory(71), quiet: memory(69), labels: { server: 'r:1' } },
  KeytallyRedisMemoryFull: { at: '9m', fires: memory(81), quiet: memory(79), labels: { server: 'r:1' } },
  KeytallySettingsOlder: { at: '8m', ...gauge('keytally_settings_older', 1, 0) },
  KeytallyPeriodNotGranted: { at: '6m', ...fromStart('keytally_periods_not_granted_total') },
  KeytallyAuditLogBroken: { at: '6m', ...gauge('keytally_audit_log_broken', 1, 0) },
  KeytallyAuditLogUnchained: { at: '12m', ...gauge('keytally_audit_unchained_seconds', 61, 59) },
};

test('promtool finds nothing wrong with the rules and with what Compose gives Prometheus', async () => {
  await promtool('check', 'rules', ...ruleFiles);
  const text = readFileSync(join(checkout, 'deploy/prometheus.yml'), 'utf8');
  const file = join(folder, 'prometheus.yml');
  writeFileSync(file, text.replaceAll('/etc/prometheus/rules', join(checkout, 'deploy/prometheus')));
  assert.match((await promtool('check', 'config', file)).stdout, /SUCCESS/);
});

test('every alert fires where its threshold is passed, and stays quiet just below it', async () => {
  // Each alert has its case here.
  assert.equal(Object.keys(cases).toSorted(), alerts.map(({ alert }) => alert).toSorted());
  await promtool('test', 'rules', testFile('good', cases));
});

test('the error ratio counts what verify refused before it was a verification, and is 0 without errors', async () => {
  const refused = { 'keytally_http_request_seconds_count{program="verify",status="503"}': '0+10x20' };
  const answered = { 'keytally_http_request_seconds_count{program="verify",status="200"}': '0+90x20' };
  const expr = 'round(keytally:verify_errors:ratio_rate5m, 0.001)';
  const tests = [
    { given: { ...refused, ...answered, ...verifications(0, 100) }, value: 0.1 },
    { given: { ...refused, ...answered, ...verifications(20, 100) }, value: 0.2 },
    { given: { ...answered, 'keytally_verifications_total{status="VALID"}': '0+5x20' }, value: 0 },
  ].map(({ given, value }) => ({
    interval: '1m',
    input_series: series(given),
    promql_expr_test: [{ expr, eval_time: '15m', exp_samples: [{ labels: '{}', value }] }],
  }));
  const file = join(folder, 'ratio.json');
  writeFileSync(file, JSON.stringify({ rule_files: ruleFiles, evaluation_interval: '1m', tests }));
  await promtool('test', 'rules', file);
});

function testFile(name: string, given: Record<string, Case>): string {
  const tests = Object.entries(given).flatMap(([alertname, { at, fires, quiet, labels }]) => {
    const { labels: ofRule, annotations } = alerts.find(({ alert }) => alert === alertname)!;
    const filled = Object.entries(annotations).map(([key, text]) => [
      key,
      text.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => labels?.[label] ?? ''),
    ]);
    const expected = { exp_labels: { ...ofRule, ...labels }, exp_annotations: Object.fromEntries(filled) };
    return [
      ...[fires].flat().map((one) => ({
        interval: '1m',
        input_series: series(one),
        alert_rule_test: [{ eval_time: at, alertname, exp_alerts: [expected] }],
      })),
      { interval: '1m', input_series: series(quiet), alert_rule_test: [{ eval_time: at, alertname }] },
    ];
  });
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify({ rule_files: ruleFiles, evaluation_interval: '1m', tests }));
  return file;
}

function series(given: Series): { series: string; values: string }[] {
  return Object.entries(given).map(([name, values]) => ({ series: name, values }));
}
