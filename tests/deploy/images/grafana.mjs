// Reads what the real one would: its password, its provisioning, and the dashboards that this names. Then it is healthy.
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const { GF_SECURITY_ADMIN_PASSWORD__FILE, GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH } = process.env;
for (const file of [GF_SECURITY_ADMIN_PASSWORD__FILE, GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH]) readFileSync(file);
for (const kind of ['dashboards', 'datasources']) readdirSync(`/etc/grafana/provisioning/${kind}`);
createServer((request, response) => response.end('ok')).listen(3000);
