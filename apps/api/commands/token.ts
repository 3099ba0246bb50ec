import '../../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { storeRecorded } from '../resources/record.ts';
import { accessTokens, createFullToken, findOrCreateTeam } from '../resources/access/tokens.ts';
import { bringIntoForce } from './tool.ts';

// Creates an access token with every permission and prints nothing else: `npm run -s token -- --team NAME`.

/** The name of the team; undefined if the command line is wrong. */
export function readTeam(args: string[]): string | undefined {
  try {
    const { team } = parseArgs({ args, options: { team: { type: 'string' } } }).values;
    return team && team.length <= 128 ? team : undefined;
  } catch {
    return undefined;
  }
}

async function main(): Promise<void> {
  const team = readTeam(process.argv.slice(2));
  if (!team) {
    console.error('name the team, in at most 128 characters: npm run -s token -- --team NAME');
    process.exit(2);
  }

  const config = readConfigOrExit(programs.token);
  const sql = connectPostgres(config.DATABASE_URL, { max: 2, everyTeam: true });
  const { text, changes } = await sql.begin(async (tx) => {
    const teamId = await findOrCreateTeam(tx, team);
    const { text, row } = await createFullToken(tx, teamId);
    const origin = { teamId, tokenId: null, operation: 'npm run token', requestId: null };
    const made = { id: row.id, after: accessTokens.present(row), shards: [row.shard] };
    return { text, changes: await storeRecorded(tx, origin, [{ resource: 'access_token', ...made }]) };
  });

  await bringIntoForce('token', sql, config.REDIS_URL, [changes]);
  await sql.end();
  console.log(text);
}

if (import.meta.main) await main();
