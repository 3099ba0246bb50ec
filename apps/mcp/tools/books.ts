import { Type, type Static } from 'typebox';
import type { Contract } from '../../../clients/node/index.ts';
import { recordOf } from '../records.ts';
import { amount, cursor, ids, meter, nextCursor } from '../schemas.ts';
import { shown, tally, tool, withUntrusted, type Reader } from '../tool.ts';

// The api reads each record's books: so many take some seconds.
const MOST = 20;
// A token has five of the api's turns.
const AT_ONCE = 4;
const MOST_GAPS = 5;

const gap = Type.Object({
  epoch: Type.Integer(),
  afterNumber: Type.Integer({ description: 'the number of the last event before what is missing' }),
  events: Type.Integer({ description: 'how many events' }),
  credits: Type.Optional(amount),
});
const proof = withUntrusted(
  {
    billingId: ids.record,
    status: Type.Enum(['EXACT', 'MISSING', 'TOO_MUCH', 'ON_ITS_WAY'], {
      description:
        'EXACT: the books prove the balance; ON_ITS_WAY: events are not in the books yet, ask again in a minute',
    }),
    usedCredits: Type.String({ description: 'used, by the balance' }),
    bookedCredits: Type.String({ description: 'used, by the events in the books' }),
    billedCredits: Type.String({ description: 'used, by the days that usage answers' }),
    difference: amount,
    heldDifference: amount,
    grantsDifference: Type.Optional(amount),
    gaps: Type.Array(gap, { description: `where events are missing, at most ${MOST_GAPS}` }),
    losses: Type.Array(gap, { description: 'usage lost with a Redis server: neither debited nor booked' }),
  },
  { externalMeterId: Type.String() },
);

export default tool({
  name: 'books',
  title: 'State of the books',
  description: `Proves the books: compares the balance of billing records with the sum of their usage events, and says where events are missing, if any. Give billingId, or workspaceId with externalMeterId, for one record; workspaceId alone for ${MOST} of its records at a time.`,
  input: Type.Object({
    billingId: Type.Optional(ids.record),
    workspaceId: Type.Optional(ids.workspace),
    externalMeterId: Type.Optional(meter),
    cursor,
  }),
  output: Type.Object({ records: Type.Array(proof), nextCursor }),

  async run({ cursor, ...which }, reader, options) {
    const { billings, nextCursor } = await wantedRecords(which, cursor, reader, options);
    const records: Static<typeof proof>[] = [];
    let next = 0;
    const work = async () => {
      for (let at = next++; at < billings.length; at = next++) {
        const { id: bid, externalMeterId } = billings[at]!;
        const { reconciliation } = await reader.billing.reconciliation({ bid }, options);
        records[at] = presentProof(reconciliation, externalMeterId);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const more = nextCursor === undefined ? '' : ' There are more: ask again with nextCursor as cursor.';
    return {
      text: `${records.length} records: ${tally(records, ({ status }) => status)}.${more}`,
      data: { records, ...(nextCursor !== undefined && { nextCursor }) },
    };
  },
});

type Which = Parameters<typeof recordOf>[0];

async function wantedRecords(
  which: Which,
  cursor: string | undefined,
  reader: Reader,
  options: { signal: AbortSignal },
): ReturnType<Reader['billing']['list']> {
  const { workspaceId: id, billingId, externalMeterId } = which;
  if (id !== undefined && billingId === undefined && externalMeterId === undefined)
    return reader.billing.list({ id, limit: MOST, cursor }, options);
  return { billings: [await recordOf(which, reader, options)] };
}

type Reconciliation = Contract['get /api/v1/customer-billing/{bid}/reconciliation']['output']['reconciliation'];

function presentProof(given: Reconciliation, externalMeterId: string): Static<typeof proof> {
  return {
    billingId: given.billingId,
    status: given.status,
    usedCredits: given.usedCredits,
    bookedCredits: given.bookedCredits,
    billedCredits: given.billedCredits,
    difference: given.difference,
    heldDifference: given.heldDifference,
    ...(given.grants && { grantsDifference: given.grants.difference }),
    gaps: presentGaps(given.gaps),
    losses: presentGaps(given.losses),
    untrusted: { externalMeterId: shown(externalMeterId) },
  };
}

function presentGaps(gaps: Reconciliation['gaps']): Static<typeof gap>[] {
  return gaps.slice(0, MOST_GAPS).map(({ after, events, credits }) => ({
    epoch: after.epoch,
    afterNumber: after.number,
    events,
    ...(credits !== undefined && { credits }),
  }));
}
