import type { Clock } from '../../../../shared/runtime/clock.ts';
import { readConfig } from '../../../../shared/runtime/config.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { programs } from '../../../../shared/runtime/programs.ts';
import { begin } from '../../../../shared/runtime/run.ts';
import { atEnd } from '../../../../tests/helpers/at-end.ts';
import { learnContract } from '../../../../tests/helpers/contract.ts';
import type { World } from '../../../../tests/helpers/world.ts';
import { startApi } from '../../start.ts';

/** A database of a world, with the rights that the api has. */
export function urlOfApi({ env }: Pick<World, 'env'>, databaseUrl = env.DATABASE_URL!): string {
  const [url, login] = [new URL(databaseUrl), new URL(process.env.TEST_API_POSTGRES_URL!)];
  ({ username: url.username, password: url.password } = login);
  return url.href;
}

/** One more api of a world, which lives by a clock of the test; with all lines that it logs. Nothing waits until it is ready. */
export async function startApiBy(clock: Clock, world: World, settings: Record<string, string> = {}) {
  const env = { ...world.env, ...settings };
  const config = readConfig(programs.api, { ...env, DATABASE_URL: urlOfApi(world, env.DATABASE_URL) });
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>);
  const log = makeLogger('api', config.LOG_LEVEL, { write });
  const api = await begin('api', { ...config, HOST: '127.0.0.1' }, log, startApi, clock);
  const url = `http://127.0.0.1:${api.port}`;
  await learnContract(url, 'api ');
  return { url, lines, stop: atEnd(() => api.stop()) };
}
