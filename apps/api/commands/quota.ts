import '../../../shared/runtime/require-node.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { changeQuotas, describeQuotas, readWantedQuotas } from '../resources/changed-quotas.ts';
import { quotasOf } from '../resources/quotas.ts';
import { bringIntoForce } from './tool.ts';

// Shows or changes the quotas of a team: `npm run -s quota -- --team NAME [keys=5000 workspaces=default …]`.

const wanted = readWantedQuotas(process.argv.slice(2));
if (typeof wanted === 'string') {
  console.error(wanted);
  process.exit(2);
}

const config = readConfigOrExit(programs.quota);
const sql = connectPostgres(config.DATABASE_URL, { max: 2, everyTeam: true });
const [team] = await sql<{ id: string }[]>`select id from teams where name = ${wanted.team} or id = ${wanted.team}`;
if (!team) console.error(`there is no team ${wanted.team}`);
else {
  if (wanted.changes.length > 0) {
    const pages = await sql.begin((tx) => changeQuotas(tx, team.id, wanted.changes));
    if (pages.length > 0) await bringIntoForce('quota', sql, config.REDIS_URL, pages);
  }
  for (const line of await describeQuotas(sql, team.id, quotasOf(config))) console.log(line);
}
await sql.end();
process.exitCode = team ? 0 : 1;
