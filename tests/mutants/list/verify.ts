import type { Mutant } from '../mutant.ts';

const answers = 'shared/verification/script-answers.test.ts';
const lookup = 'shared/stores/lua/parts/lookup.lua';

export const verify: Mutant[] = [
  {
    name: 'a check that lacks its body keeps its connection',
    file: 'apps/verify/server.ts',
    from: 'const isLast = route === GATEWAY_PATH && lacksItsBody(request)',
    to: 'const isLast = false',
    seenBy: 'apps/verify/gateway/gateway.test.ts',
  },
  {
    name: 'a key is valid in the millisecond in which it expires',
    file: lookup,
    from: "expiresAtMs ~= '0' and nowMs >= tonumber(expiresAtMs)",
    to: "expiresAtMs ~= '0' and nowMs > tonumber(expiresAtMs)",
    seenBy: answers,
  },
  {
    name: 'an earlier secret is valid in the millisecond in which its grace ends',
    file: lookup,
    from: 'nowMs >= tonumber(validUntilMs)',
    to: 'nowMs > tonumber(validUntilMs)',
    seenBy: answers,
  },
  {
    name: 'a lookup that is kept outlives the expiry of its key',
    file: lookup,
    from: 'tonumber(expiresAtMs) < tonumber(holdsUntilMs)',
    to: 'tonumber(expiresAtMs) > tonumber(holdsUntilMs)',
    seenBy: answers,
  },
  {
    name: 'an Idempotency-Key of a call alone is kept for 6 s',
    file: 'shared/stores/lua/verify.lua',
    from: "call('SETEX', onceKey, '60', onceRecord)",
    to: "call('SETEX', onceKey, '6', onceRecord)",
    seenBy: answers,
  },
  {
    name: 'an Idempotency-Key of a call among others is kept for 6 s',
    file: 'shared/stores/lua/parts/batch.lua',
    from: "call('SETEX', onceKey, '60', onceRecord)",
    to: "call('SETEX', onceKey, '6', onceRecord)",
    seenBy: answers,
  },
  {
    name: 'an older version of a record takes the place of a newer one',
    file: 'shared/stores/lua/apply.lua',
    from: 'if currentVersion and currentVersion > tonumber',
    to: 'if currentVersion and currentVersion < tonumber',
    seenBy: 'shared/stores/apply-script.test.ts',
  },
  {
    name: 'a limit per second lets one call more through',
    file: 'shared/stores/lua/parts/rate-limit.lua',
    from: 'nowTicks + interval * perSecond',
    to: 'nowTicks + interval * (perSecond + 1)',
    seenBy: answers,
  },
  {
    name: 'a lookup outlives an emptied shard that has counted as many writes',
    file: 'shared/stores/lua/verify.lua',
    from: 'if epoch ~= shardEpoch or writes',
    to: 'if writes',
    seenBy: 'shared/verification/script-answers.test.ts',
  },
];
