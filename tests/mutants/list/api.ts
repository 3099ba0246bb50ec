import type { Mutant } from '../mutant.ts';

const reopening = 'tests/system/reopening.test.ts';

export const api: Mutant[] = [
  {
    name: 'a shard is open for any server',
    file: 'shared/stores/lua/parts/fence.lua',
    from: 'return meta[1] == runId and meta',
    to: 'return meta[1] and meta',
    seenBy: reopening,
  },
  {
    name: 'any builder may write to a closed shard',
    file: 'shared/stores/lua/parts/build.lua',
    from: 'return meta[2] == token and meta, token',
    to: 'return meta[2] and meta, token',
    seenBy: reopening,
  },
  {
    name: 'a second builder claims what another one is building',
    file: 'shared/stores/lua/begin.lua',
    from: "> nowMs then return { 'BUSY'",
    to: "> nowMs + 1e9 then return { 'BUSY'",
    seenBy: reopening,
  },
  {
    name: 'whoever lost its claim opens the shard all the same',
    file: 'shared/stores/lua/open.lua',
    from: 'if meta[1] ~= token or meta[3] ~= runId',
    to: 'if meta[3] ~= runId',
    seenBy: reopening,
  },
  {
    name: 'a checkpoint goes back',
    file: 'shared/stores/lua/checkpoint.lua',
    from: 'tonumber(checkpoint) <= tonumber(meta[2])',
    to: 'tonumber(checkpoint) == tonumber(meta[2])',
    seenBy: reopening,
  },
  {
    name: 'a checkpoint of another history of Postgres is taken over',
    file: 'shared/stores/lua/checkpoint.lua',
    from: "if not same and written ~= 'whole'",
    to: "if not same and written == 'nothing'",
    seenBy: reopening,
  },
  {
    name: 'a checkpoint of another history hides changes from a reopening',
    file: 'apps/api/reopen/write-missing.ts',
    from: 'claim.history === history && claim.checkpoint <= horizon',
    to: 'claim.checkpoint <= horizon',
    seenBy: reopening,
  },
  {
    name: 'a checkpoint that Postgres has not reached hides changes',
    file: 'apps/api/reopen/write-missing.ts',
    from: ' && claim.checkpoint <= horizon',
    to: '',
    seenBy: reopening,
  },
  {
    name: 'a checkpoint from before pruned changes counts',
    file: 'apps/api/reopen/write-missing.ts',
    from: 'checkpoint > prunedUpTo',
    to: 'checkpoint > 0',
    seenBy: reopening,
  },
  {
    name: 'an emptied shard is filled from a Postgres that is behind',
    file: 'apps/api/reopen/reopen.ts',
    from: 'if (emptied.length > 0) stalePostgres.refuse()',
    to: 'if (emptied.length < 0) stalePostgres.refuse()',
    seenBy: reopening,
  },
  {
    name: 'a shard opens in the epoch that it had',
    file: 'apps/api/reopen/epochs.ts',
    from: 'greatest(shards.epoch, survived.epoch) + 1',
    to: 'greatest(shards.epoch, survived.epoch)',
    seenBy: reopening,
  },
  {
    name: 'a change is taken that Redis knows a later one of',
    file: 'apps/api/http/write-transaction.ts',
    from: 'if (known.length < newer.length)',
    to: 'if (known.length > newer.length)',
    seenBy: reopening,
  },
  {
    name: 'new records are made while memory is short',
    file: 'apps/api/http/write-transaction.ts',
    from: 'if (route.grows) options.requireMemory()',
    to: 'if (!route.grows) options.requireMemory()',
    seenBy: 'tests/system/short-memory.test.ts',
  },
  {
    name: 'credits are held while memory is short',
    file: 'shared/verification/verifier.ts',
    from: 'if (body.billing?.hold) options.requireMemory()',
    to: 'if (!body.billing) options.requireMemory()',
    seenBy: 'tests/system/short-memory.test.ts',
  },
];
