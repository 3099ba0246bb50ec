import '../../../shared/runtime/require-node.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { quotasOf, changeQuotas, describeQuotas, readWantedQuotas } from '../resources/quotas.ts';
import { bringIntoForce, withPostgres } from './tool.ts';

// Shows or changes the quotas of a team: `npm run -s quota -- --team NAME [keys=5000 workspaces=default …]`.

const wanted = readWantedQuotas(process.argv.slice(2));
if (typeof wanted === 'string') {
  console.error(wanted);
  process.exit(2);
}
const config = readConfigOrExit(programs.quota);
await withPostgres(config.DATABASE_URL, async (sql) => {
  const [team] = await sql<{ id: string }[]>`select id from teams where name = ${wanted.team} or id = ${wanted.team}`;
  if (!team) {
    console.error(`there is no team ${wanted.team}`);
    process.exitCode = 1;
    return;
  }
  const changes = wanted.changes.length > 0 ? await sql.begin((tx) => changeQuotas(tx, team.id, wanted.changes)) : [];
  if (changes.length > 0) await bringIntoForce('quota', sql, config.REDIS_URL, changes);
  for (const line of await describeQuotas(sql, team.id, quotasOf(config))) console.log(line);
});
