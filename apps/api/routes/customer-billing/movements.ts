import { Type } from 'typebox';
import { noteReplenished } from '../../../../shared/books/credit-states.ts';
import { crossedAlert, type Alert } from '../../../../shared/contract/alerts.ts';
import { invalidField } from '../../../../shared/contract/errors.ts';
import {
  credits,
  id,
  named,
  object,
  requestIdText,
  timestamp,
  instant,
  usageName,
} from '../../../../shared/contract/schema-kinds.ts';
import { billing, externalMeterId } from '../../../../shared/contract/schemas.ts';
import { CREDITS_PATTERN, creditsFromNumber, formatCredits, parseCredits } from '../../../../shared/values/credits.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { holdId } from '../../../../shared/verification/hold-operations.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { present, tableOf, type Row } from '../../resources/rows.ts';
import { billings, presentBalance, requireBilling, requireBillingOfMeter } from '../../resources/billings/billings.ts';
import { addGrant } from '../../resources/grants/classes.ts';
import { readHeard } from '../../sync/accounts.ts';
import { readOpenHolds, type OpenHold } from '../../resources/billings/holds.ts';

const refill = Type.Unsafe<number | string>({
  type: ['string', 'number'],
  pattern: CREDITS_PATTERN,
  exclusiveMinimum: 0,
  description: 'credits to add, as decimal text or as a JSON number; above 0, at most six decimals, at most 9000000000',
  examples: ['25.5'],
});

const ledgerRow = named(
  'LedgerRow',
  object({
    id: id('ledger row'),
    billingId: id('billing record'),
    amount: credits('credits added'),
    totalCredits: credits('totalCredits after the refill'),
    tokenId: id('access token', ' that made the refill'),
    requestId: requestIdText('refill-42'),
    createdAt: timestamp('when the credits were added'),
  }),
);

const openHold = named(
  'OpenHold',
  object({
    id: holdId,
    credits: credits('what is held'),
    apiKeyId: id('API key', ' that it was held for'),
    usageName: usageName('what is counted'),
    onExpiry: Type.Enum(['release', 'charge'], { description: 'what becomes of the credits at its end' }),
    createdAt: timestamp('since when it is held'),
    expiresAt: instant('when the hold ends'),
  }),
);

type LedgerRow = Pick<Row<typeof ledgerRow>, 'id' | 'billingId' | 'tokenId' | 'requestId' | 'createdAt'> & {
  amountMicros: number;
  totalMicros: number;
};
const ledger = tableOf<LedgerRow>(
  'credit_ledger',
  'id, billing_id, amount_micros, total_micros, token_id, request_id, created_at',
  'billing_not_found',
);

export const refillBilling = route('post', '/api/v1/customer-billing/refill', {
  summary: 'Add credits to a billing record',
  description:
    'Adds credits to what was bought, and writes a row into the ledger. A repeat with the same Idempotency-Key adds nothing.',
  permission: 'billing:write',
  body: object({ workspaceId: id('workspace'), externalMeterId, refill }),
  response: object({ billing }),
  errors: ['workspace_forbidden', 'billing_not_found', 'credits_too_large'],

  async handle({ sql, body, caller, changed, redis, requestId }) {
    const amountMicros = typeof body.refill === 'string' ? parseCredits(body.refill) : creditsFromNumber(body.refill);
    if (!amountMicros)
      throw invalidField(
        '/refill',
        'must be above 0 and at most 9000000000, with at most six decimals; as text where it has more than 15 digits',
      );

    const before = await requireBillingOfMeter(sql, caller, body, { lock: true });
    // What is set aside, or damaged, may not have heard of a void.
    const { balance } = await readHeard(redis, before);
    // By the clock that begins grants.
    const { atMs } = balance;
    const grant = { id: newId('grant'), amountMicros, priority: 50, beginsAt: atMs, expiresAt: null };
    await addGrant(sql, before, grant, { ...caller, requestId }, atMs, { limited: false });
    const row = await billings.require(sql, before.id, sql`true`);
    await noteReplenished(sql, [row.id]);
    billings.say(changed, { before, after: row });
    return { billing: presentBalance(row, balance, amountMicros) };
  },
});

export const listLedger = listRoute('/api/v1/customer-billing/{bid}/ledger', 'ledger', ledgerRow, {
  summary: 'List the refills of a billing record, oldest first',
  description: 'Each row is one refill, with the credits that were bought up to it.',
  permission: 'billing:read',

  async open({ sql, params, caller }) {
    const { id: billingId } = await requireBilling(sql, caller, params.bid);
    return {
      read: (after, take) => ledger.page(sql, sql`billing_id = ${billingId}`, after, take),
      present: (row) => present(ledgerRow, row),
    };
  },
});

export const listAlerts = listRoute('/api/v1/customer-billing/{bid}/alerts', 'alerts', crossedAlert, {
  summary: 'List the alerts that a billing record has crossed, newest first',
  description: 'Each line is one crossing, within two seconds of it and for 90 days.',
  permission: 'billing:read',

  async open({ sql, params, caller }) {
    const { id: billingId } = await requireBilling(sql, caller, params.bid);
    return {
      read: (after, take) => sql<ToldRow[]>`
        select id, name, "when", at, used_micros, event_id from alerts_told
        where billing_id = ${billingId} ${after === '' ? sql`` : sql`and id < ${after}`}
        order by id desc limit ${take}`,
      present: ({ usedMicros, ...told }) => ({ ...told, usedCredits: formatCredits(usedMicros) }),
    };
  },
});

export const listHolds = listRoute('/api/v1/customer-billing/{bid}/holds', 'holds', openHold, {
  summary: 'List the open holds of a billing record, those that end first, first',
  description: 'What is held, since when, until when, and by which key.',
  permission: 'billing:read',
  errors: ['redis_unavailable'],

  async open({ sql, params, caller, redis, holds }) {
    const record = await requireBilling(sql, caller, params.bid);
    const idOf = await holds.idMaker(caller.teamId, record.shard);
    const { id: billingId, workspaceId, externalMeterId } = record;
    const meter = { shard: String(record.shard), workspaceId, meter: externalMeterId, billingId };
    const answer = (hold: OpenHold) =>
      present(openHold, {
        id: idOf({ ...hold, ...meter, id: hold.holdId }),
        credits: formatCredits(Number(hold.micros)),
        apiKeyId: hold.keyId,
        usageName: hold.usageName,
        onExpiry: hold.onExpiry as 'release' | 'charge',
        createdAt: new Date(Number(hold.openedMs)),
        expiresAt: Number(hold.endsAtMs),
      });
    const open = await readOpenHolds(redis, record);
    const read = async (after: string, take: number) => open.filter(({ id }) => id > after).slice(0, take);
    return { read, present: answer };
  },
});

type ToldRow = Pick<Alert, 'name' | 'when'> & { id: string; at: number; usedMicros: number; eventId: string };
