import { Type } from 'typebox';
import { withGrant } from '../../../../shared/books/account-state.ts';
import { noteReplenished } from '../../../../shared/books/credit-states.ts';
import { invalidField, ApiError } from '../../../../shared/contract/errors.ts';
import { credits, instant, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, metadata, name, expiresAtInput, LAST_INSTANT } from '../../../../shared/contract/schemas.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hideSecrets } from '../../../../shared/values/secrets.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { someCreditsIn, presentAmounts, lockBilling, requireBilling } from '../../resources/billings/billings.ts';
import { addGrant, countBegun } from '../../resources/grants/classes.ts';
import {
  grant,
  grantPresenter,
  grantErrors,
  changedGrant,
  priority,
  requireFewEnded,
  requireGrant,
  grantStates,
  endOf,
  numbersBy,
  voidReason,
  type GrantState,
  type GrantRow,
  grantReader,
  withForgotten,
} from '../../resources/grants/grants.ts';
import { voidGrant as storeVoid } from '../../resources/grants/voids.ts';
import { readAccount, readHeard } from '../../sync/accounts.ts';

export const createGrant = route('post', '/api/v1/customer-billing/{bid}/grant', {
  summary: 'Grant credits to a billing record, with a beginning, an end and a priority',
  description:
    'Adds credits that begin now or later, and end or do not. It is in force with the answer. A repeat with the same Idempotency-Key grants nothing.',
  permission: 'billing:write',
  status: 201,
  grows: true,
  idempotencyKeyRequired: true,
  body: object({
    credits: credits('credits to grant, above 0'),
    name: Type.Optional(name),
    beginsAt: Type.Optional(instant('when it begins, default now; up to 60 s past means now')),
    expiresAt: Type.Optional({ ...expiresAtInput, description: 'when it ends, in Unix milliseconds; default never' }),
    priority: Type.Optional(priority),
    metadata: Type.Optional(metadata),
  }),
  response: object({ grant, billing }),
  errors: ['workspace_deleted', ...grantErrors],

  async handle({ sql, params, body, caller, changed, redis, requestId }) {
    const record = await lockBilling(sql, caller, params.bid);
    const amountMicros = someCreditsIn('credits', body.credits);
    const account = await readHeard(redis, record);
    requireFewEnded(account);
    const { balance, state } = account;
    const { beginsAt, expiresAt } = timesOf(body, balance.atMs);
    const { priority = 50, name, metadata } = body;
    const made = { id: newId('grant'), amountMicros, priority, beginsAt, expiresAt, name, metadata };
    await addGrant(sql, record, made, { ...caller, requestId }, balance.atMs);
    changed({ resource: 'billing', id: record.id, shards: [record.shard] });
    await noteReplenished(sql, [record.id]);
    const row = await requireGrant(sql, record, made.id);
    changed(changedGrant({ after: row }));
    const after = await requireBilling(sql, caller, record.id);
    const begunMicros = beginsAt > balance.atMs ? 0 : amountMicros;
    const totalMicros = (balance.totalMicros ?? record.totalMicros) + begunMicros;
    // As it will be once it is in force, which it is with the answer.
    const then = begunMicros > 0 ? withGrant(state, row.number, begunMicros) : state;
    return {
      grant: grantPresenter({ ...account, state: then })(row),
      billing: presentAmounts(after, { ...balance, totalMicros }),
    };
  },
});

export const listGrants = listRoute('/api/v1/customer-billing/{bid}/grants', 'grants', grant, {
  summary: 'List the grants of a billing record, oldest first',
  description:
    'With what of each was used, has expired and remains. First credits and refills are among them. With `state`, a page may hold fewer items than asked for, and still have a next one.',
  permission: 'billing:read',
  query: { state: Type.Optional(Type.Enum([...grantStates], { description: 'only grants in this state' })) },
  errors: ['redis_unavailable', 'usage_unavailable'],

  async open({ sql, books, params, query, caller, redis }) {
    const reader = await grantReader({ sql, redis, books }, await requireBilling(sql, caller, params.bid));
    const isWanted = ({ state }: { state: GrantState }) => query.state === undefined || state === query.state;
    return { ...reader, present: (row: GrantRow) => [reader.present(row)].find(isWanted) };
  },
});

export const getGrant = route('get', '/api/v1/customer-billing/{bid}/grant/{gid}', {
  summary: 'Get a grant, with what of it was used, has expired and remains',
  description: 'First credits and refills are grants too: of priority 50, without an end.',
  permission: 'billing:read',
  response: object({ grant }),
  errors: ['redis_unavailable', 'usage_unavailable'],

  async handle({ sql, books, params, caller, redis }) {
    const record = await requireBilling(sql, caller, params.bid);
    const row = await requireGrant(sql, record, params.gid);
    const account = await withForgotten({ sql, books }, await readAccount(redis, record), [row]);
    return { grant: grantPresenter(account)(row) };
  },
});

export const voidGrant = route('post', '/api/v1/customer-billing/{bid}/grant/{gid}/void', {
  summary: 'Void a grant: what is left of it is gone at once',
  description:
    'What was used stays used, and what open holds drew from it stays reserved for them. A grant that has yet to begin never counts. Voiding it again changes nothing.',
  permission: 'billing:write',
  body: object({ reason: voidReason }),
  response: object({ grant, billing }),
  errors: ['workspace_deleted', 'grant_expired', 'grant_ended_limit_reached'],

  async handle({ sql, books, params, body, caller, changed, redis, requestId }) {
    const record = await lockBilling(sql, caller, params.bid);
    const account = await readHeard(redis, record);
    const { balance } = account;
    await countBegun(sql, record, balance.atMs);
    const before = await requireGrant(sql, record, params.gid);
    const amounts = { ...balance, totalMicros: balance.totalMicros ?? record.totalMicros };
    if (before.voidedAt !== null) {
      const known = await withForgotten({ sql, books }, account, [before]);
      return { grant: grantPresenter(known)(before), billing: presentAmounts(record, amounts) };
    }
    if (endOf(before) <= balance.atMs) throw new ApiError('grant_expired');
    if (before.hasBegun) requireFewEnded(account);

    const given = { ...before, voidedAt: balance.atMs, voidReason: hideSecrets(body.reason) };
    let expiredMicros = balance.expiredMicros ?? 0;
    changed({ resource: 'billing', id: record.id, shards: [record.shard] });
    const adjustmentId = await storeVoid(sql, record, given, { ...caller, requestId, atMs: balance.atMs });
    changed({ resource: 'adjustment', id: adjustmentId, shards: [record.shard] });
    const row = await requireGrant(sql, record, before.id);
    // As it will be once it is in force, which it is with the answer.
    const then = new Map(account.forgotten);
    if (before.hasBegun) {
      const { usedMicros, heldMicros, leftMicros } = numbersBy(account)(before);
      then.set(row.voidNumber ?? row.number, { usedMicros, heldMicros });
      expiredMicros += leftMicros - heldMicros;
    }
    const classes = account.state.classes.filter(({ number }) => !then.has(number));
    const present = grantPresenter({ ...account, state: { ...account.state, classes }, forgotten: then });
    changed(changedGrant({ before, after: row }));
    const after = await requireBilling(sql, caller, record.id);
    return { grant: present(row), billing: presentAmounts(after, { ...amounts, expiredMicros }) };
  },
});

const PAST_IS_NOW_MS = 60_000;

function timesOf(body: { beginsAt?: number; expiresAt?: number }, nowMs: number) {
  const { beginsAt: given = nowMs, expiresAt = null } = body;
  if (given < nowMs - PAST_IS_NOW_MS)
    throw invalidField('/beginsAt', 'must lie at most 60 s in the past, in Unix milliseconds');
  if (given > LAST_INSTANT) throw invalidField('/beginsAt', `must be at most ${LAST_INSTANT}`);
  const beginsAt = Math.max(given, nowMs);
  if (expiresAt !== null && expiresAt <= beginsAt)
    throw invalidField('/expiresAt', 'must lie after beginsAt, and in the future, in Unix milliseconds');
  return { beginsAt, expiresAt };
}
