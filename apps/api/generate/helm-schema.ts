import { readFileSync, writeFileSync } from 'node:fs';
import { programs } from '../../../shared/runtime/programs.ts';
import { groups } from '../../../shared/runtime/variables.ts';

/** The schema of the chart's values. */
export const helmSchemaFile = new URL('../../../deploy/helm/values.schema.json', import.meta.url);

/** What the chart sets by values of their own, or from the Secret: the same for all programs, or with rules of Kubernetes. */
const setByTheChart =
  `NODE_ENV HOST PORT OPS_PORT DATABASE_URL REDIS_URL REDIS_MIN_REPLICAS CLICKHOUSE_URL CLICKHOUSE_CLUSTER
  MASTER_KEY MASTER_KEY_PREVIOUS TLS_CERTIFICATE_PATH TLS_KEY_PATH TLS_BY_PROXY PUBLIC_API_URL PUBLIC_VERIFY_URL
  CONSUMER_NAME BUS KAFKA_BROKERS KAFKA_TLS KAFKA_SASL_MECHANISM KAFKA_SASL_USERNAME KAFKA_SASL_PASSWORD
  VAULT_TOKEN WEBHOOK_ALLOWED_TARGETS OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_HEADERS`.split(/\s+/);

type Schema = { properties: Record<string, Schema> };

/**
 * The schema of the chart's values, with the variables that each program reads made again from the code: Helm refuses a
 * misspelt one.
 */
export function renderHelmSchema(text = readFileSync(helmSchemaFile, 'utf8')): string {
  const schema = JSON.parse(text) as Schema;
  const { kafka, telemetry } = groups;
  const ofPrograms = Object.entries(programs).filter(([name]) => schema.properties[name]?.properties.config);
  for (const [name, read] of ofPrograms)
    set(
      schema.properties[name],
      'config',
      Object.keys(read).filter((variable) => !(variable in { ...kafka, ...telemetry })),
    );
  set(schema.properties.servers?.properties.kafka, 'config', Object.keys(kafka));
  set(schema.properties.telemetry, 'config', Object.keys(telemetry));
  set(schema.properties.masterKey, 'vault', Object.keys(programs['vault-key']));
  return `${JSON.stringify(schema, null, 2)}\n`;
}

function set(place: Schema | undefined, name: string, variables: readonly string[]): void {
  if (!place) throw new Error(`${helmSchemaFile.pathname} has no place for ${name}`);
  const free = variables.filter((variable) => !setByTheChart.includes(variable));
  const propertyNames = { enum: free.toSorted() };
  const additionalProperties = { $ref: '#/definitions/variable' };
  Object.assign(place.properties, { [name]: { type: 'object', propertyNames, additionalProperties } });
}

if (import.meta.main) writeFileSync(helmSchemaFile, renderHelmSchema());
