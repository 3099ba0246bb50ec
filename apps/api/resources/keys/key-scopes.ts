import type { Static } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { flagBits } from '../../../../shared/contract/schemas.ts';
import { hideSecrets } from '../../../../shared/values/secrets.ts';
import type { grants } from './keys.ts';

type Holder = { teamId: string; workspaceId: string; keyId: string };

/**
 * Grants a key exactly these scopes; 400 if the workspace does not have one of them, or one is given twice. It holds the
 * scopes: what a representation means must not change before the grant is stored.
 */
export async function replaceGrants(sql: Query, { teamId, workspaceId, keyId }: Holder, scopes: Static<typeof grants>) {
  const wanted = scopes.map((scope) => scope.representation);
  const found = await sql<{ id: string; representation: string }[]>`
    select id, representation from scopes
    where workspace_id = ${workspaceId} and representation = any(${wanted}) and deleted_at is null
    for key share`;
  const scopeIds = new Map(found.map((scope) => [scope.representation, scope.id]));
  refuseWrongScopes(wanted, scopeIds);

  await sql`delete from key_grants where key_id = ${keyId}`;
  const rows = grantRows({ teamId, keyId }, scopes, scopeIds);
  if (rows.length > 0) await sql`insert into key_grants ${sql(rows)}`;
}

/** Throws 400 for representations that the workspace does not have (`scopeIds` are those it has), or that are given twice. */
export function refuseWrongScopes(wanted: string[], scopeIds: ReadonlyMap<string, string>): void {
  refuseUnknown(wanted, scopeIds);
  refuseTwice(wanted);
}

/** The rows that grant a key these scopes. */
export function grantRows(
  { teamId, keyId }: Omit<Holder, 'workspaceId'>,
  scopes: Static<typeof grants>,
  scopeIds: ReadonlyMap<string, string>,
) {
  return scopes.map((scope, position) => {
    return { teamId, keyId, scopeId: scopeIds.get(scope.representation)!, flags: flagBits(scope), position };
  });
}

function refuseUnknown(wanted: string[], scopeIds: ReadonlyMap<string, string>): void {
  const unknown = wanted.filter((representation) => !scopeIds.has(representation));
  if (unknown.length === 0) return;
  const details = wanted.flatMap((representation, i) =>
    scopeIds.has(representation)
      ? []
      : [{ path: `/scopes/${i}/representation`, message: 'is not a scope of the workspace' }],
  );
  // The client may have put a key into the wrong field.
  const names = [...new Set(unknown)].map(hideSecrets).join(', ');
  const message = `The workspace has no scope ${names}; create it first.`;
  throw new ApiError('unknown_scope', { message, details });
}

function refuseTwice(wanted: string[]): void {
  const details = wanted.flatMap((representation, i) =>
    wanted.indexOf(representation) === i ? [] : [{ path: `/scopes/${i}/representation`, message: 'is given twice' }],
  );
  if (details.length === 0) return;
  const message = 'The request is not valid: scopes contains a representation twice; put all its flags into one entry.';
  throw new ApiError('invalid_request', { message, details });
}
