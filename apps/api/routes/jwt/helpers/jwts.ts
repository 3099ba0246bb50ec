import { SignJWT } from 'jose';
import { type World, must } from '../../../../../tests/helpers/world.ts';
import { makeSigningKeys } from '../../../resources/jwts/signing-keys.ts';

export const PATH = '/api/v1/jwt';
export type Team = { id: string; token: string };

/** What tests do with the JWTs of teams, by the api's operations; each must succeed. */
export function makeJwts(world: World) {
  const ask = ({ token }: { token: string }, path: string, body?: object) =>
    world.call('post', PATH + path, body, { token });
  const signing = (team: { token: string }, body: object = {}) => ask(team, '', { payload: {}, ...body });
  const post = async (team: { token: string }, path: string, body?: object) =>
    (await must(200, ask(team, path, body))).body;
  return {
    ask,
    signing,
    sign: async (team: { token: string }, body?: object): Promise<string> =>
      (await must(201, signing(team, body))).body.jwt,
    verify: (team: { token: string }, jwt: string) => post(team, '/verify', { jwt }),
    rotate: async (team: { token: string }, body?: object): Promise<string> => (await post(team, '/rotate', body)).kid,
    revoke: (team: { token: string }, body: object) => post(team, '/revoke', body),
    /** The ids of the keys that a team publishes: the current one, the next one, earlier ones. */
    kids: async ({ id }: Team): Promise<string[]> => {
      const { body } = await must(200, world.call('get', keySetOf({ id }), undefined, { token: null }));
      return body.keys.map((key: { kid: string }) => key.kid);
    },
    /** Signs what the service would not, by the team's own key. */
    signBy: async ({ id }: Team, claims: Record<string, unknown>, header: Record<string, unknown> = {}) => {
      const keys = makeSigningKeys([Buffer.from(world.env.MASTER_KEY!, 'base64')]);
      const { kid, privateKey } = await world.sql.begin((tx) => keys.current(tx, id, 60));
      const signed = new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA', kid, ...header });
      return signed.sign(privateKey, { crit: { ext: true } });
    },
  };
}

/** Where a team's key set is. */
export function keySetOf({ id }: { id: string }): string {
  return `/team/${id}/.well-known/jwks.json`;
}

/** Claims of a team's JWT that expires so many seconds from now. */
export function claimsOf({ id }: Team, expiresIn: number, jti = 'x') {
  const now = Math.floor(Date.now() / 1000);
  return { iss: id, iat: now + Math.min(expiresIn, 0), exp: now + expiresIn, jti };
}
