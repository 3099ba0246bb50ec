import type { Change } from '../mutants/copy.ts';

/** A rule of docs/architecture.md or docs/resilience.md, and a change of the product that breaks it. */
export type BrokenRule = Change & { rule: string };

export const brokenRules: BrokenRule[] = [
  {
    rule: 'an event has one identity, and twice is once',
    file: 'shared/events/carried-event.ts',
    from: `const text = value?.toString();`,
    to: `const text = value?.toString().replace(/evt_./, 'evt_' + (Date.now() % 10));`,
  },
  {
    rule: 'an event is acknowledged after its insert',
    file: 'shared/events/pump.ts',
    from: `      if (events.length > 0) await deliver(events, signal);`,
    to: `      await acknowledge(); if (events.length > 0) await deliver(events, signal);`,
  },
  {
    rule: 'a script that runs late changes nothing',
    file: 'shared/stores/lua/verify.lua',
    from: `  if late then return false, 'LATE' end`,
    to: `  if false then return false, 'LATE' end`,
  },
  {
    rule: 'unknown is not INVALID: a closed shard answers nothing',
    file: 'shared/stores/lua/parts/fence.lua',
    from: `  return meta[1] == runId and meta`,
    to: `  return meta`,
  },
  {
    rule: 'an older version never overwrites a newer one',
    file: 'shared/stores/lua/apply.lua',
    from: `  if currentVersion and currentVersion > tonumber(string.match(value, '^%d+')) then`,
    to: `  if false then`,
  },
  {
    rule: 'a repeated key is debited once',
    file: 'shared/stores/lua/verify.lua',
    from: `call('SETEX', onceKey, '60', one.onceRecord)`,
    to: `call('SETEX', onceKey, '1', one.onceRecord)`,
  },
  {
    rule: 'credits are not spent twice',
    file: 'shared/stores/lua/verify.lua',
    from: `if costMicros > min(one.limit, MAX_MICROS) - one.used then`,
    to: `if costMicros > MAX_MICROS - one.used then`,
  },
  {
    rule: 'what a dead process left is brought into force',
    file: 'apps/api/sync/sweeper.ts',
    from: `applied_at is null and created_at < now() - interval '3 seconds'`,
    to: `false and applied_at is null`,
  },
  {
    rule: 'a change is in force before its answer',
    file: 'apps/api/http/write-transaction.ts',
    from: `  await bringIntoForce(options, kept.changeIds);`,
    to: `  void bringIntoForce(options, kept.changeIds).catch(() => {});`,
  },
  {
    rule: 'an event does not outlive its debit',
    file: 'shared/stores/disk-mark.ts',
    from: `    has: (redisMs, readAt) => redisMs < proved.redisMs || readAt <= proved.sentAt,`,
    to: `    has: () => true,`,
  },
  {
    rule: 'what dies with a process in the middle of a batch is claimed by another',
    file: 'shared/events/outbox-reader.ts',
    from: `    if (clock.monotonic() < nextClaimAt || node.runId() !== round.runId) return;`,
    to: `    return;`,
  },
  {
    rule: 'a Redis that comes back behind the books is rebuilt from them',
    file: 'apps/api/reopen/shard-claims.ts',
    from: `    isBehind: rows.some(({ isBehind }) => isBehind),`,
    to: `    isBehind: false,`,
  },
  {
    rule: 'a log that began anew is still held against what the books have of the one before',
    file: 'apps/api/reopen/reopen.ts',
    from: `  await drain(node, toFill);`,
    to: `  await sql\`update shards set booked_to = null\`; await drain(node, toFill);`,
  },
  {
    rule: 'the books get no event before the place of its log is noted',
    file: 'apps/consumer/consume.ts',
    from: `      { what: 'noting what the books get', work: (events) => raiseBookedTo(sql, events) },`,
    to: ``,
  },
  {
    rule: 'a record with a late event is rebuilt',
    file: 'apps/consumer/note-late-events.ts',
    from: `      if (late.length === 0) continue;`,
    to: `      continue;`,
  },
  {
    rule: 'a record is rebuilt once the books have all that it had given',
    file: 'shared/books/rebuilding/rebuild.ts',
    from: `  if (numbers < sequence || adjustments.own.numbers < adjustment)`,
    to: `  if (numbers < 0)`,
  },
  {
    rule: 'a Redis that restarted is opened by what changed since its checkpoint',
    file: 'apps/api/reopen/write-missing.ts',
    from: `  for await (const entries of loadSince(sql, comparable)) await writeEntries(sql, redis, grant, entries);`,
    to: ``,
  },
  {
    rule: 'a claim ends with its builder, also after the clock was set back',
    file: 'shared/stores/lua/begin.lua',
    from: `local isHeld = heldUntil > nowMs and heldUntil <= tonumber(buildUntil())`,
    to: `local isHeld = heldUntil > nowMs - 3600000`,
  },
  {
    rule: 'a batch answers each verification in its place',
    file: 'shared/verification/batch.ts',
    from: `(await Promise.all(answers)).join()`,
    to: `(await Promise.all(answers)).reverse().join()`,
  },
  {
    rule: 'no key has a scope that was deleted',
    file: 'apps/api/routes/scope/scopes.ts',
    from: `    changed('scope', row.id, { before: scopes.present(before) });`,
    to: ``,
  },
  {
    rule: 'a deleted workspace has no keys',
    file: 'apps/api/routes/workspace/workspaces.ts',
    from: `    changed('workspace', row.id, { before: workspaces.present(before) });`,
    to: ``,
  },
  {
    rule: 'what a window has counted falls no faster than its limit',
    file: 'shared/stores/lua/parts/limits.lua',
    from: `        if level > 0 and window < LONGEST_WINDOW then`,
    to: `        if level > 0 and window < LONGEST_WINDOW then level = level / 2`,
  },
  {
    rule: 'a delivery that was refused comes again',
    file: 'apps/webhooks/claim.ts',
    from: `  if (isDelivered(outcome)) return 'DELIVERED';`,
    to: `  if (outcome.status) return 'DELIVERED';`,
  },
  {
    rule: 'an event of a webhook is the same at each try',
    file: 'apps/webhooks/deliver.ts',
    from: `timestamp: new Date(at).toISOString()`,
    to: `timestamp: now.toISOString()`,
  },
  {
    rule: 'the numbers of a record have no gap',
    file: 'shared/stores/lua/verify.lua',
    from: `one.used, one.sequence = one.used + one.costMicros, one.sequence + 1`,
    to: `one.used, one.sequence = one.used + one.costMicros, one.sequence + 2`,
  },
  {
    rule: 'no billed usage goes without its event while the outbox is full',
    file: 'shared/stores/lua/verify.lua',
    from: `  if outboxFull and one.limit then return 'OUTBOX_FULL' end`,
    to: ``,
  },
  {
    rule: 'a secret that was rotated away has ended',
    file: 'apps/api/sync/loaders/keys.ts',
    from: `    where c.kind = 'key' and (c.id = any(`,
    to: `    where false and c.kind = 'key' and (c.id = any(`,
  },
  {
    rule: 'a capture that is repeated gets its first answer',
    file: 'shared/stores/lua/parts/holds.lua',
    from: `  for id, settled in pairs(writes.settled) do`,
    to: `  for id, settled in pairs({}) do`,
  },
  {
    rule: 'an adjustment is applied once',
    file: 'shared/stores/lua/adjust.lua',
    from: `if number <= last then return { 'OK', nowText, usedText } end`,
    to: `if number < last then return { 'OK', nowText, usedText } end`,
  },
  {
    rule: 'a spend cap holds',
    file: 'shared/values/credits.ts',
    from: `  const cap = record.spendCapMicros ?? MAX_MICROS;`,
    to: `  const cap = MAX_MICROS;`,
  },
];
