import { hash, randomBytes } from 'node:crypto';
import type { Configuration } from 'openid-client';
import { permissions, type Caller, type Permission } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Config } from '../../../../shared/runtime/variables.ts';
import { setTeam, type Sql } from '../../../../shared/stores/postgres.ts';
import { storeRecorded } from '../record.ts';
import { callerOf, lockTeamTokens } from './access.ts';
import { accessTokens, createToken, findOrCreateTeam } from './tokens.ts';

const ANSWERS_WITHIN_SECONDS = 5;
const LONGEST_NAME = 128;

type ProviderConfig = Pick<
  Config,
  | 'OIDC_ISSUER'
  | 'OIDC_CLIENT_ID'
  | 'OIDC_CLIENT_SECRET'
  | 'OIDC_SCOPES'
  | 'OIDC_GROUPS_CLAIM'
  | 'OIDC_GROUPS'
  | 'OIDC_TEAM'
  | 'PUBLIC_API_URL'
>;

/** Where people sign in. */
export type Provider = NonNullable<ReturnType<typeof makeProvider>>;

/**
 * Signs people in by OpenID Connect: authorization code with PKCE, state and nonce, which all follow from one secret of the browser.
 * Whoever is in a group has an access token that nobody knows the secret of; its sessions have the rights of the groups that the
 * person was in last.
 */
export function makeProvider(config: ProviderConfig, sql: Sql) {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret, PUBLIC_API_URL } = config;
  if (issuer === undefined) return undefined;
  const rightsOf = new Map(
    [...config.OIDC_GROUPS].map(([group, rights]) => {
      const known = permissions.filter((one) => rights[0] === '*' || rights.includes(one));
      const unknown = rights.find((one) => one !== '*' && !known.some((right) => right === one));
      if (unknown)
        throw new Error(`OIDC_GROUPS gives ${group} the right ${unknown}; there are * and ${permissions.join(', ')}`);
      return [group, known] as const;
    }),
  );
  const home = `${PUBLIC_API_URL.replace(/\/+$/, '')}/console`;
  let found: Promise<Configuration> | undefined;
  const discover = async () => {
    const client = await import('openid-client');
    const proof = clientSecret === '' ? client.None() : undefined;
    const http = issuer.startsWith('http:') ? { execute: [client.allowInsecureRequests] } : {};
    found ??= client.discovery(new URL(issuer), clientId, clientSecret, proof, {
      timeout: ANSWERS_WITHIN_SECONDS,
      ...http,
    });
    try {
      return { client, provider: await found };
    } catch (error) {
      found = undefined;
      throw new ApiError('provider_unavailable', { cause: error });
    }
  };

  return {
    host: new URL(issuer).host,

    /** Gives the page where they do, and the secret that their browser must have when they come back. */
    async ask(): Promise<{ url: string; secret: string }> {
      const { client, provider } = await discover();
      const secret = randomBytes(32).toString('base64url');
      const url = client.buildAuthorizationUrl(provider, {
        redirect_uri: home,
        scope: config.OIDC_SCOPES || 'openid profile email',
        code_challenge: await client.calculatePKCECodeChallenge(secret),
        code_challenge_method: 'S256',
        state: derived('state', secret),
        nonce: derived('nonce', secret),
      });
      return { url: url.href, secret };
    },

    /** The caller of that secret, a blank, and the query that the provider sent the browser back with. */
    async authenticate(answer = ''): Promise<Caller> {
      const [secret = '', query = ''] = answer.split(' ', 2);
      const { client, provider } = await discover();
      const checks = {
        pkceCodeVerifier: secret,
        expectedState: derived('state', secret),
        expectedNonce: derived('nonce', secret),
        idTokenExpected: true,
      };
      const tokens = await client
        .authorizationCodeGrant(provider, new URL(`${home}?${query.replace(/^\?/, '')}`), checks)
        .catch((error: unknown) => {
          throw refusal(error);
        });
      const claims = tokens.claims()!;
      const groups = [claims[config.OIDC_GROUPS_CLAIM]].flat();
      const granted = groups.flatMap((group) => (typeof group === 'string' ? (rightsOf.get(group) ?? []) : []));
      if (granted.length === 0) {
        const message = `You are in none of the groups that may use the console: ${[...rightsOf.keys()].join(', ')}.`;
        throw new ApiError('permission_missing', { message });
      }
      const told = [claims['name'], claims['email'], claims.sub].find((one) => typeof one === 'string');
      const name = (told ?? '').replaceAll(/\p{C}/gu, '').trim().slice(0, LONGEST_NAME) || 'a person';
      return storePerson(sql, config.OIDC_TEAM, {
        subject: `${claims.iss} ${claims.sub}`,
        name,
        permissions: permissions.filter((one) => granted.includes(one)),
      });
    },
  };
}

function derived(what: string, secret: string): string {
  return hash('sha256', `${what} ${secret}`, 'base64url');
}

// A network that fails is no answer of the provider.
function refusal(error: unknown): ApiError {
  const isSilent = error instanceof TypeError || (error as { code?: string }).code === 'OAUTH_TIMEOUT';
  if (isSilent) return new ApiError('provider_unavailable', { cause: error });
  const message = 'The provider did not accept this; sign in again.';
  return new ApiError('session_ended', { message, cause: error });
}

type Person = { subject: string; name: string; permissions: Permission[] };

/** Stores the access token of a person, or what has changed of it; gives its caller. */
function storePerson(sql: Sql, team: string, { subject, ...is }: Person) {
  return sql.begin(async (tx) => {
    const teamId = await findOrCreateTeam(tx, team);
    await setTeam(tx, teamId);
    // Nobody else makes it meanwhile, and no write goes on with rights that end.
    await lockTeamTokens(tx, teamId, { alone: true });
    const [before] = await tx<Parameters<typeof accessTokens.present>[0][]>`
      select ${accessTokens.columns(tx)} from access_tokens
      where team_id = ${teamId} and subject = ${subject} and revoked_at is null`;
    const row = before
      ? await accessTokens.update(tx, before.id, is)
      : (await createToken(tx, { teamId, subject, ...is })).row;
    const [told, after] = [before && accessTokens.present(before), accessTokens.present(row)];
    const origin = { teamId, tokenId: row.id, operation: 'POST /console/session/provided', requestId: null };
    if (JSON.stringify(told?.permissions) !== JSON.stringify(after.permissions) || told?.name !== after.name)
      await storeRecorded(tx, origin, [
        { resource: 'access_token', id: row.id, before: told, after, shards: [row.shard] },
      ]);
    return callerOf({ ...row, teamId, workspaceIds: null, allowedIps: null, teamPerSecond: null });
  });
}
