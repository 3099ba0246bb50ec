import { hash } from 'node:crypto';
import { Type } from 'typebox';
import type { Clock } from '../../../../shared/runtime/clock.ts';
import { TextAnswer } from '../../../../shared/contract/route.ts';
import { named, object } from '../../../../shared/contract/schema-kinds.ts';
import type { Logger } from '../../../../shared/runtime/log.ts';
import type { Sql } from '../../../../shared/stores/postgres.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { publicJwk, type PublicJwk, type JwtSettings } from './signing-keys.ts';

/** Most keys in the set of all teams, about 330 KB. Many JWKS clients take no more than 50 to 500 KB. */
export const MAX_SHARED_KEYS = 2_000;

/** A JWK set (RFC 7517). */
export const keySet = named('KeySet', object({ keys: Type.Array(publicJwk, { maxItems: MAX_SHARED_KEYS }) }));

/** What strangers may read of a team: its public keys, and how its JWTs name their issuer. An unknown team has neither. */
export type TeamKeys = { keys: PublicJwk[]; issuer?: JwtSettings['issuer'] };

/** Reads public keys for whoever asks, without an access token: so that strangers cost Postgres next to nothing. */
export type KeySets = ReturnType<typeof makeKeySets>;

const SHARED_FOR_MS = 1_000;
// A cache may have a set that is ten minutes old. A next key is published for longer than that before it signs, unless a
// team rotates twice in ten minutes.
const CACHE_CONTROL = 'public, max-age=300, stale-while-revalidate=300';

type Kept = { answer: Promise<TextAnswer>; until: number };

export function makeKeySets(sql: Sql, log: Logger, clock: Clock) {
  const ofTeam = gathered((ids) => readTeams(sql, ids));
  let kept: Kept | undefined;
  let wasCut = false;

  async function readShared(): Promise<TextAnswer> {
    // Current and next keys first, those of the oldest teams among them; then those whose JWTs are in force longest.
    const rows = await sql<{ publicJwk: PublicJwk }[]>`
      select public_jwk from signing_keys k join teams t on t.id = k.team_id and t.shares_signing_keys
      where published_until > now() order by published_until desc, team_id, kid limit ${MAX_SHARED_KEYS + 1}`;
    const isCut = rows.length > MAX_SHARED_KEYS;
    if (isCut && !wasCut) log.warn({ keys: MAX_SHARED_KEYS }, 'the key set of all teams has no room for all of them');
    wasCut = isCut;
    return keySetAnswer(rows.slice(0, MAX_SHARED_KEYS).map((row) => row.publicJwk));
  }

  return {
    /** The set of all teams that share their keys; at most one read a second, whoever asks. */
    shared(): Promise<TextAnswer> {
      if (!kept || clock.monotonic() >= kept.until) {
        const endsIn = () => void (reading.until = clock.monotonic() + SHARED_FOR_MS);
        const reading: Kept = { answer: readShared().finally(endsIn), until: Infinity };
        kept = reading;
      }
      return kept.answer;
    },
    /** A team's own keys, as they are now: one read at a time, each for all who wait. */
    async ofTeam(teamId: string): Promise<TeamKeys> {
      return (isId(teamId) ? await ofTeam(teamId) : undefined) ?? { keys: [] };
    },
  };
}

/** A key set as an answer. An empty one may not be kept: the team's first JWT fills it and must verify at once. */
export function keySetAnswer(keys: PublicJwk[]): TextAnswer {
  const json = Buffer.from(JSON.stringify({ keys }));
  const etag = `"${hash('sha256', json, 'base64url').slice(0, 27)}"`;
  const cacheControl = keys.length === 0 ? 'no-store' : CACHE_CONTROL;
  return new TextAnswer('application/json', json, { headers: { ETag: etag, 'Cache-Control': cacheControl } });
}

async function readTeams(sql: Sql, teamIds: string[]): Promise<Map<string, TeamKeys>> {
  // The current key first, then the next one, then earlier ones.
  const rows = await sql<(Required<TeamKeys> & { id: string })[]>`
    select t.id, t.jwt_issuer as issuer,
           coalesce((select json_agg(k.public_jwk order by k.retired_at is not null, k.retired_at desc)
                     from signing_keys k where k.team_id = t.id and k.published_until > now()), '[]') as keys
    from teams t where t.id = any(${teamIds})`;
  return new Map(rows.map(({ id, ...keys }) => [id, keys]));
}

/** A reader of one thing by its id that reads many at once: one read at a time, for all who asked before it began. */
function gathered<T>(read: (ids: string[]) => Promise<Map<string, T>>) {
  let reading: Promise<unknown> = Promise.resolve();
  let next: { ids: Set<string>; found: Promise<Map<string, T>> } | undefined;

  function gather() {
    const ids = new Set<string>();
    const found = reading.then(() => {
      next = undefined;
      return read([...ids]);
    });
    reading = found.catch(() => {});
    return { ids, found };
  }

  return async (id: string): Promise<T | undefined> => {
    next ??= gather();
    next.ids.add(id);
    return (await next.found).get(id);
  };
}
