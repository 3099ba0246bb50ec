import '../../../shared/runtime/require-node.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { giveRolePassword, migrateClickHouse, migratePostgres } from '../../../shared/stores/migrate.ts';
import { endLoad } from '../backup/load.ts';
import { progressLine, withPostgres } from './tool.ts';

// Brings the schemas of Postgres and ClickHouse up to date: `npm run migrate`. Running it again changes nothing.
const config = readConfigOrExit(programs.migrate);
const { DATABASE_URL, CLICKHOUSE_URL, CLICKHOUSE_CLUSTER: cluster } = config;
const progress = progressLine();
await withPostgres(DATABASE_URL, async (sql) => {
  const applied = [
    ...(await migratePostgres(sql, { say: progress.show })),
    ...(await migrateClickHouse(CLICKHOUSE_URL, { sql, cluster, say: progress.show })),
  ];
  progress.end();
  await endLoad(sql, CLICKHOUSE_URL, cluster);
  await giveRolePassword(sql, 'keytally_api', config.API_DATABASE_PASSWORD);
  await giveRolePassword(sql, 'keytally_consumer', config.CONSUMER_DATABASE_PASSWORD);
  await giveRolePassword(sql, 'keytally_webhooks', config.WEBHOOKS_DATABASE_PASSWORD);
  console.log(applied.length > 0 ? `applied ${applied.join(', ')}` : 'the schemas are up to date');
});
