import { programs, readConfig } from '../../shared/config.ts';
import { migrateClickHouse, migratePostgres } from '../../shared/migrate.ts';
import { connectPostgres } from '../../shared/postgres.ts';

// Brings the schemas of Postgres and ClickHouse up to date: `npm run migrate`. Running it again changes nothing.
const config = readConfig(...programs.migrate);
const sql = connectPostgres(config.DATABASE_URL, { max: 1, statementTimeoutMs: 0 });
const applied = [
  ...(await migratePostgres(sql)),
  ...(await migrateClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER)),
];
await sql.end();
console.log(applied.length > 0 ? `applied ${applied.join(', ')}` : 'the schemas are up to date');
