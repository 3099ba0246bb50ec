import type { Mutant } from '../mutant.ts';

const examples = 'tests/accounts/examples.test.ts';

export const accounts: Mutant[] = [
  {
    name: 'grants are drawn against their priority',
    file: 'shared/stores/lua/parts/turns.lua',
    from: 'return a.priority < b.priority end',
    to: 'return a.priority > b.priority end',
    seenBy: examples,
  },
  {
    name: 'of two grants the one that ends last is drawn first',
    file: 'shared/stores/lua/parts/turns.lua',
    from: 'return a.endsAtMs < b.endsAtMs end',
    to: 'return a.endsAtMs > b.endsAtMs end',
    seenBy: examples,
  },
  {
    name: 'a hold can be captured in the millisecond in which it is forgotten',
    file: 'shared/stores/lua/parts/capture-alone.lua',
    from: 'nowMs >= settled.endsAtMs + LATE_MS',
    to: 'nowMs > settled.endsAtMs + LATE_MS',
    seenBy: examples,
  },
  {
    name: 'what is held does not count',
    file: 'shared/stores/lua/verify.lua',
    from: 'accounts.amountsOf(account), account.used + account.held, account.limit',
    to: 'accounts.amountsOf(account), account.used, account.limit',
    seenBy: examples,
  },
  {
    name: 'a capture that comes again is a conflict whatever it captures',
    file: 'shared/stores/lua/parts/capture-alone.lua',
    from: 'settled.usage == asked.amount then',
    to: 'settled.usage ~= asked.amount then',
    seenBy: examples,
  },
  {
    name: 'a capture that comes again debits again',
    file: 'shared/stores/lua/parts/capture-alone.lua',
    from: "settled.usage == asked.amount then return 'OK', settled.late, settled.endsAtMs end",
    to: 'settled.usage == asked.amount then return captureLost(account, asked.told, asked.amount) end',
    seenBy: examples,
  },
  {
    name: 'what expires is counted twice',
    file: 'shared/stores/lua/parts/account.lua',
    from: 'account.expired = account.expired + left - covered',
    to: 'account.expired = account.expired + 2 * (left - covered)',
    seenBy: examples,
  },
  {
    name: 'what is given back goes to the grant that is drawn first',
    file: 'shared/stores/lua/parts/account.lua',
    from: 'for i = #turn.classes, 1, -1 do',
    to: 'for i = 1, #turn.classes do',
    seenBy: examples,
  },
  {
    name: 'what a hold needs of a grant that ends expires with it',
    file: 'shared/stores/lua/parts/account.lua',
    from: 'return min(left, max(0, account.held - account.turn.pinned - before))',
    to: 'return 0',
    seenBy: examples,
  },
  {
    name: 'an alert is told twice',
    file: 'shared/stores/lua/parts/account.lua',
    from: "alert.armed .. '\\0'\n      alert.armed = ''",
    to: "alert.armed .. '\\0'",
    seenBy: examples,
  },
  {
    name: 'an alert is told one micro-credit late',
    file: 'shared/stores/lua/parts/account.lua',
    from: 'local isAbove = crossedAt(account, alert) > account.used',
    to: 'local isAbove = crossedAt(account, alert) >= account.used',
    seenBy: examples,
  },
  {
    name: 'the share of an alert is rounded down',
    file: 'shared/stores/lua/parts/account.lua',
    from: 'math.ceil(rest * alert.value / 100)',
    to: 'math.floor(rest * alert.value / 100)',
    seenBy: 'tests/accounts/alerts.test.ts',
  },
  {
    name: 'late usage is settled again in full',
    file: 'shared/stores/lua/settle.lua',
    from: 'change, before, counted = late - before, late, events',
    to: 'change, before, counted = late, late, events',
    seenBy: 'tests/accounts/scripts.test.ts',
  },
  {
    name: 'a window of a limit turns a second late',
    file: 'shared/stores/lua/verify.lua',
    from: 'nowMs >= tonumber(holdsUntilMs)',
    to: 'nowMs - 1000 >= tonumber(holdsUntilMs)',
    seenBy: 'tests/accounts/limits-script.test.ts',
  },
];
