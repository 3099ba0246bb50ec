import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres } from './postgres.ts';

test('Postgres ends the sessions of a machine that died, and the locks that they hold, within a minute', async () => {
  const sql = connectPostgres(process.env.TEST_POSTGRES_URL!, { max: 1 });
  try {
    const [row] = await sql<
      [{ idle: number; interval: number; count: number; unacknowledgedMs: number; isTcp: boolean }]
    >`
      select current_setting('tcp_keepalives_idle')::int as idle, current_setting('tcp_keepalives_interval')::int as interval,
        current_setting('tcp_keepalives_count')::int as count, inet_server_addr() is not null as is_tcp,
        (select setting::int from pg_settings where name = 'tcp_user_timeout') as unacknowledged_ms`;
    assert.ok(row.isTcp);
    assert.ok(row.idle > 0 && row.idle + row.interval * row.count <= 60, JSON.stringify(row));
    assert.ok(row.unacknowledgedMs > 0 && row.unacknowledgedMs <= 60_000, JSON.stringify(row));
  } finally {
    await sql.end();
  }
});

test.run();
