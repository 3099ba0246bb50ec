import { Type } from 'typebox';
import { noteReplenished } from '../../../../shared/books/credit-states.ts';
import { withGrant } from '../../../../shared/books/account-state.ts';
import { invalidField } from '../../../../shared/contract/errors.ts';
import { credits, id, instant, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, metadata, name } from '../../../../shared/contract/schemas.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { accountOf } from '../../sync/accounts.ts';
import {
  creditsIn,
  presentAmounts,
  refuseDeletedWorkspace,
  requireBilling,
} from '../../resources/billings/billings.ts';
import { addGrant } from '../../resources/grants/classes.ts';
import { readHeard } from '../../resources/grants/heard.ts';
import {
  grant,
  grantPresenter,
  grantSettings,
  priority,
  requireFewEnded,
  requireGrant,
} from '../../resources/grants/grants.ts';
import { expiresAtInput, LAST_INSTANT } from '../../resources/expires-at.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/customer-billing/{bid}/grant',
  tag: 'Customer billing',
  operationId: 'createGrant',
  summary: 'Grant credits to a billing record, with a beginning, an end and a priority',
  description:
    'Adds credits that begin now or later, and end or do not. It is in force with the answer. A repeat with the same Idempotency-Key grants nothing.',
  permission: 'billing:write',
  status: 201,
  writes: true,
  grows: true,
  idempotencyKeyRequired: true,
  params: object({ bid: id('billing record') }),
  body: object({
    credits: credits('credits to grant, above 0'),
    name: Type.Optional(name),
    beginsAt: Type.Optional(instant('when it begins, default now; up to 60 s past means now')),
    expiresAt: Type.Optional({ ...expiresAtInput, description: 'when it ends, in Unix milliseconds; default never' }),
    priority: Type.Optional(priority),
    metadata: Type.Optional(metadata),
  }),
  response: object({ grant, billing }),
  errors: [
    'billing_not_found',
    'workspace_deleted',
    'credits_too_large',
    'grant_class_limit_reached',
    'grant_pending_limit_reached',
    'grant_ended_limit_reached',
  ],

  async handle({ sql, params, body, caller, changed, audit, redis, requestId }) {
    const record = await requireBilling(sql, caller, params.bid, { lock: true });
    await refuseDeletedWorkspace(sql, record);
    const amountMicros = creditsIn('credits', body.credits);
    if (amountMicros === 0) throw invalidField('/credits', 'must be above 0');
    const account = accountOf(record, await readHeard(redis, record));
    requireFewEnded(account);
    const { balance, state } = account;
    const { beginsAt, expiresAt } = timesOf(body, balance.atMs);
    const made = { id: newId('grant'), amountMicros, priority: body.priority ?? 50, beginsAt, expiresAt };
    const { teamId, tokenId } = caller;
    await addGrant(
      sql,
      record,
      { ...made, name: body.name, metadata: body.metadata },
      { teamId, tokenId, requestId },
      balance.atMs,
    );
    changed('billing', record.id, record.shard);
    await noteReplenished(sql, [record.id]);
    const row = await requireGrant(sql, record, made.id);
    audit('grant', row.id, undefined, grantSettings(record.id, row));
    const after = await requireBilling(sql, caller, record.id);
    const begunMicros = beginsAt > balance.atMs ? 0 : amountMicros;
    const totalMicros = (balance.totalMicros ?? record.totalMicros) + begunMicros;
    // As it will be once it is in force, which it is with the answer.
    const then = begunMicros > 0 ? withGrant(state, balance.usedMicros, row.class, begunMicros) : state;
    return {
      grant: grantPresenter(record.id, { balance, state: then })(row),
      billing: presentAmounts(after, { ...balance, totalMicros }),
    };
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
