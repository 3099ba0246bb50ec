import '../../../shared/runtime/require-node.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { storeRecorded } from '../resources/record.ts';
import { accessTokens, createFullToken, findOrCreateTeam } from '../resources/access/tokens.ts';
import { bringIntoForce, readTeam, withPostgres } from './tool.ts';

// Creates an access token with every permission and prints nothing else: `npm run -s token -- --team NAME`.

const team = readTeam(process.argv.slice(2));
if (!team) {
  console.error('name the team, in at most 128 characters: npm run -s token -- --team NAME');
  process.exit(2);
}
const config = readConfigOrExit(programs.token);
await withPostgres(config.DATABASE_URL, async (sql) => {
  const { text, changes } = await sql.begin(async (tx) => {
    const teamId = await findOrCreateTeam(tx, team);
    const { text, row } = await createFullToken(tx, teamId, config.TEST_TOKEN);
    const origin = { teamId, tokenId: null, operation: 'npm run token', requestId: null };
    const made = { id: row.id, after: accessTokens.present(row), shards: [row.shard] };
    return { text, changes: await storeRecorded(tx, origin, [{ resource: 'access_token', ...made }]) };
  });
  await bringIntoForce('token', sql, config.REDIS_URL, changes);
  console.log(text);
});
