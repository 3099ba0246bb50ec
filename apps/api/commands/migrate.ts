import '../../../shared/runtime/require-node.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { giveRolePassword, migrateClickHouse, migratePostgres } from '../../../shared/stores/migrate.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { endLoad } from '../backup/load.ts';
import { progressLine } from './tool.ts';

// Brings the schemas of Postgres and ClickHouse up to date: `npm run migrate`. Running it again changes nothing.
const config = readConfigOrExit(programs.migrate);
const sql = connectPostgres(config.DATABASE_URL, { max: 1, statementTimeoutMs: 0 });
const progress = progressLine();
const applied = [
  ...(await migratePostgres(sql, { say: progress.show })),
  ...(await migrateClickHouse(config.CLICKHOUSE_URL, {
    sql,
    cluster: config.CLICKHOUSE_CLUSTER,
    say: progress.show,
  })),
];
progress.end();
await endLoad(sql, config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER);
await giveRolePassword(sql, 'keytally_api', config.API_DATABASE_PASSWORD);
await giveRolePassword(sql, 'keytally_consumer', config.CONSUMER_DATABASE_PASSWORD);
await giveRolePassword(sql, 'keytally_webhooks', config.WEBHOOKS_DATABASE_PASSWORD);
await sql.end();
console.log(applied.length > 0 ? `applied ${applied.join(', ')}` : 'the schemas are up to date');
