import { Type } from 'typebox';
import { chunks } from '../../../shared/values/chunks.ts';
import { cursor, nextCursor, object, recordOf, which, type Which } from '../schemas.ts';
import { more, tally, tool, type Reader } from '../tool.ts';

// The api reads each record's books: so many take some seconds.
const MOST = 20;
// A token has five of the api's turns.
const AT_ONCE = 4;
const MOST_GAPS = 5;

const gap = object(['epoch', 'afterNumber', 'events', 'credits']);
const sums = ['usedCredits', 'bookedCredits', 'billedCredits', 'difference', 'heldDifference'] as const;
const proof = object(['billingId', 'status', ...sums, 'grantsDifference'], ['externalMeterId'], {
  gaps: Type.Array(gap, { description: `where events are missing, at most ${MOST_GAPS}` }),
  losses: Type.Array(gap, { description: 'usage lost with a Redis server: neither debited nor booked' }),
});

export default tool({
  name: 'books',
  title: 'State of the books',
  description: `Proves the books: compares the balance of billing records with the sum of their usage events, and says where events are missing, if any; ON_ITS_WAY: ask again in a minute. Give billingId, or workspaceId with externalMeterId, for one record; workspaceId alone for ${MOST} of its records at a time.`,
  input: Type.Object({ ...which, cursor }),
  output: Type.Object({ records: Type.Array(proof), nextCursor }),

  async run({ cursor, ...one }, reader) {
    const { billings, nextCursor } = await wantedRecords(one, cursor, reader);
    const records: Awaited<ReturnType<typeof proofOf>>[] = [];
    for (const some of chunks(billings, AT_ONCE))
      records.push(...(await Promise.all(some.map((one) => proofOf(one, reader)))));
    return {
      text: `${records.length} records: ${tally(records, ({ status }) => status)}.${more(nextCursor)}`,
      data: { records, nextCursor },
    };
  },
});

async function wantedRecords(
  one: Which,
  cursor: string | undefined,
  reader: Reader,
): ReturnType<Reader['billing']['list']> {
  const { workspaceId: id, billingId, externalMeterId } = one;
  if (id !== undefined && billingId === undefined && externalMeterId === undefined)
    return reader.billing.list({ id, limit: MOST, cursor });
  return { billings: [await recordOf(one, reader)] };
}

type Named = { id: string; externalMeterId: string };

async function proofOf({ id: bid, externalMeterId }: Named, reader: Reader) {
  const { reconciliation: given } = await reader.billing.reconciliation({ bid });
  const placed = (gaps: typeof given.gaps) =>
    gaps.slice(0, MOST_GAPS).map(({ after, ...one }) => ({ ...one, epoch: after.epoch, afterNumber: after.number }));
  const { grants, gaps, losses } = given;
  const grantsDifference = grants?.difference;
  return { ...given, externalMeterId, grantsDifference, gaps: placed(gaps), losses: placed(losses) };
}
