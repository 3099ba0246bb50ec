import type { Mutant } from '../mutant.ts';

const closing = 'apps/consumer/jobs/close-months.test.ts';
const consume = 'apps/consumer/consume.test.ts';
const deliver = 'apps/webhooks/deliver.test.ts';
const expire = 'apps/consumer/jobs/expire.test.ts';
const looking = 'apps/consumer/look-at-credits.test.ts';
const reconciling = 'apps/consumer/jobs/reconcile.test.ts';

export const books: Mutant[] = [
  {
    name: 'the first day of the next month is of a month that closes',
    file: 'shared/books/statements/closing.ts',
    from: 'a.day < ${endDay}',
    to: 'a.day <= ${endDay}',
    seenBy: closing,
  },
  {
    name: 'a change of the zone leaves an adjustment before the first month',
    file: 'shared/books/statements/closing.ts',
    from: 'booked !== null && booked < made ? booked : made',
    to: 'made',
    seenBy: closing,
  },
  {
    name: 'a month closes a day early',
    file: 'apps/consumer/jobs/close-months.ts',
    from: 'const CLOSE_AFTER_MS = 3 * 86_400_000',
    to: 'const CLOSE_AFTER_MS = 2 * 86_400_000',
    seenBy: closing,
  },
  {
    name: 'a month closes though its books differ',
    file: 'apps/consumer/jobs/close-months.ts',
    from: "(proof.status === 'DIFFERENT' && acceptsDifferences)",
    to: "(proof.status === 'DIFFERENT' || acceptsDifferences)",
    seenBy: closing,
  },
  {
    name: 'the books reach a moment whatever waits in the outbox',
    file: 'shared/events/outbox-watch.ts',
    from: 'return Math.min(nowMs, oldestMs);',
    to: 'return nowMs;',
    seenBy: consume,
  },
  {
    name: 'events are acknowledged before they are in the books',
    file: 'apps/consumer/consume.ts',
    from: "await retry(clock, signal, log, 'inserting usage events', () => insert(events));",
    to: "void retry(clock, signal, log, 'inserting usage events', () => insert(events)).catch(() => {});",
    seenBy: consume,
  },
  {
    name: 'entries are acknowledged on another server',
    file: 'shared/events/outbox-acknowledge.ts',
    from: 'if (node.runId() !== runId) return;',
    to: '',
    seenBy: consume,
  },
  {
    name: 'a consumer is forgotten with the entries that it holds',
    file: 'shared/stores/lua/forget.lua',
    from: 'consumer.pending == 0 and consumer.idle',
    to: 'consumer.idle',
    seenBy: consume,
  },
  {
    name: 'a difference is decided while events are on their way',
    file: 'shared/books/reconciling/reconcile.ts',
    from: '(second.has(billing.id) && !arrived) ||',
    to: '',
    seenBy: reconciling,
  },
  {
    name: 'reserved credits are not compared',
    file: 'shared/books/reconciling/reconcile.ts',
    from: 'heldDifferenceMicros: isLate ? 0 : lacking',
    to: 'heldDifferenceMicros: 0',
    seenBy: reconciling,
  },
  {
    name: 'a day is summed up before its last events are there',
    file: 'apps/consumer/jobs/rollup.ts',
    from: 'const AFTER_DAY_END_MS = 10 * 60_000',
    to: 'const AFTER_DAY_END_MS = 8 * 60_000',
  },
  {
    name: 'a mark is cleared that changed while its day was summed up',
    file: 'apps/consumer/jobs/rollup.ts',
    from: ' and current.mark = summed.mark',
    to: '',
  },
  {
    name: 'a note is removed by a look that was before it',
    file: 'apps/consumer/look-at-credits.ts',
    from: ' and mark = ${look.mark}',
    to: '',
    seenBy: looking,
  },
  {
    name: 'a spend cap that is reached leaves credits to use',
    file: 'shared/books/credit-states.ts',
    from: 'return usedMicros + heldMicros >= Math.min',
    to: 'return usedMicros + heldMicros > Math.min',
    seenBy: looking,
  },
  {
    name: 'a grant that begins is told a millisecond late',
    file: 'apps/consumer/tell-moments.ts',
    from: '${at} <= ${to + before}::bigint',
    to: '${at} < ${to + before}::bigint',
  },
  {
    name: 'an idempotency key is forgotten an hour early',
    file: 'apps/consumer/jobs/expire.ts',
    from: "created_at < now() - interval '24 hours'",
    to: "created_at < now() - interval '23 hours'",
    seenBy: expire,
  },
  {
    name: 'changes are pruned beyond one that waits',
    file: 'apps/consumer/jobs/expire.ts',
    from: 'and tx < coalesce((select tx from waiting), pg_snapshot_xmin(pg_current_snapshot()))',
    to: '',
    seenBy: expire,
  },
  {
    name: 'an older use of a token replaces a newer one',
    file: 'apps/consumer/jobs/token-uses.ts',
    from: 'where known.last_used_at < excluded.last_used_at',
    to: 'where known.last_used_at <> excluded.last_used_at',
  },
  {
    name: 'the secret of before signs no more after a rotation',
    file: 'apps/webhooks/message.ts',
    from: 'return [secretSealed, previousSealed]',
    to: 'return [secretSealed]',
    seenBy: deliver,
  },
  {
    name: 'the secret of before signs for ever',
    file: 'apps/webhooks/claim.ts',
    from: 'case when w.previous_until > now() then w.previous_sealed end',
    to: 'w.previous_sealed',
    seenBy: deliver,
  },
  {
    name: 'a delivery is tried eleven times',
    file: 'apps/webhooks/note-tries.ts',
    from: 'claimed.attempts >= retriesMs.length',
    to: 'claimed.attempts > retriesMs.length',
    seenBy: deliver,
  },
  {
    name: 'two processes try one delivery at once',
    file: 'apps/webhooks/claim.ts',
    from: 'next_at = now() + make_interval(secs => ${CLAIM_SECONDS})\n',
    to: 'next_at = now()\n',
    seenBy: deliver,
  },
];
