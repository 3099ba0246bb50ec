import { Type } from 'typebox';
import { credits, id, instant, named, object, timestamp, usageName } from '../../../../shared/contract/schema-kinds.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { holdId } from '../../../../shared/verification/hold-operations.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireBilling } from '../../resources/billings/billings.ts';
import { readOpenHolds, type OpenHold } from '../../resources/billings/holds.ts';

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

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/holds',
  tag: 'Customer billing',
  operationId: 'listHolds',
  summary: 'List the open holds of a billing record, those that end first, first',
  description: 'What is held, since when, until when, and by which key.',
  permission: 'billing:read',
  params: object({ bid: id('billing record') }),
  query: object(pageParameters),
  response: object({ holds: pageItems(openHold), nextCursor }),
  errors: ['billing_not_found', 'redis_unavailable'],

  async handle({ sql, params, query, caller, redis, holds }) {
    const record = await requireBilling(sql, caller, params.bid);
    const idOf = await holds.idMaker(caller.teamId, record.shard);
    const present = (hold: OpenHold) => ({
      id: idOf({
        shard: String(record.shard),
        workspaceId: record.workspaceId,
        meter: record.externalMeterId,
        billingId: record.id,
        id: hold.holdId,
        keyId: hold.keyId,
        usageName: hold.usageName,
        micros: String(hold.micros),
        openedMs: String(hold.openedMs),
        endsAtMs: String(hold.endsAtMs),
        epoch: hold.epoch,
        turn: hold.turn,
        onExpiry: hold.onExpiry,
      }),
      credits: formatCredits(hold.micros),
      apiKeyId: hold.keyId,
      usageName: hold.usageName,
      onExpiry: hold.onExpiry as 'release' | 'charge',
      createdAt: new Date(hold.openedMs).toISOString(),
      expiresAt: hold.endsAtMs,
    });
    const read = (after: string, take: number) => readOpenHolds(redis, record, after, take);
    const { items, next } = await readPage(query, `holds of ${record.id}`, read, present);
    return { holds: items, ...next };
  },
});
