import { errors, type ErrorName } from './errors.ts';
import type { Operation } from './route.ts';

/** Errors that any request may get, whatever it asks for. */
export const errorsOfAll = ['bad_http', 'request_timeout', 'headers_too_large'] as const satisfies readonly ErrorName[];

/** Every error that an operation may answer, ordered by code: its own, and those that follow from its other properties. */
export function errorsOf(operation: Operation): ErrorName[] {
  const { method, permission, portal, query, body, writes, errors: own = [] } = operation;
  const names = new Set<ErrorName>(own);
  const add = (...more: ErrorName[]) => more.forEach((name) => names.add(name));
  add(...errorsOfAll, 'invalid_request', 'internal', 'deadline');
  if (permission) {
    add('token_missing', 'token_unknown', 'permission_missing', 'address_not_allowed', 'too_many_failures');
    add('team_too_many_calls');
  }
  if (portal) add('portal_ended', 'session_elsewhere', 'too_many_failures', 'team_too_many_calls');
  if (operation.signed) add('payment_signature_wrong', 'too_many_failures', 'team_too_many_calls', 'overloaded');
  if (portal && method !== 'get') add('session_unmarked');
  if (portal || operation.signed || (permission && permission !== 'key:verify'))
    add('too_many_calls', 'too_many_waiting');
  if (permission !== 'key:verify') add('postgres_unavailable');
  if (body) add('invalid_json', 'body_too_large', 'not_json', 'encoded_body');
  if (query?.properties && 'cursor' in query.properties) add('invalid_cursor');
  if (writes) add('redis_unavailable', 'stored_not_in_force', 'stored_or_not', 'postgres_stale');
  if (operation.grows) add('memory_short');
  if (operation.idempotencyKeyRequired) add('idempotency_key_missing');
  if (writes && method === 'post') add('quota_exceeded');
  if (writes && method === 'post' && !operation.signed) add('idempotency_mismatch', 'idempotency_busy');
  return [...names].toSorted((a, b) => errors[a][0] - errors[b][0]);
}
