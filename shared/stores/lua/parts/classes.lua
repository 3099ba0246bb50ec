-- Classes of an account begin, end and roll over; and those of lines of the books.
--
-- Defines classLike(one, more)   adds to a table what names a class and says when it ends
--         begunUntil(one, atMs, coming)   what of a declared class has begun by an instant; adds the grants to come to a list
--         beginGrants(account, beginning), endClass(account, class), endClasses(account, atMs), beginPending(account, atMs)
--         noteEnded(account, ended)       what ended is known for a day
--         nextMoments(account)   when the first hold, the first class ends, and the first grant begins
--         makeClasses(account, lastMs, sums)   the classes of an account by sums of its lines
local function drawnFirst(a, b)
  if a.priority ~= b.priority then return a.priority < b.priority end
  if a.endsAtMs ~= b.endsAtMs then return a.endsAtMs < b.endsAtMs end
  -- Begins with the age of the class.
  return a.ref < b.ref
end

local function classLike(one, more)
  for _, name in ipairs(ITEMS.class) do more[name] = one[name] end
  return more
end

-- Parts what a class has by an instant from the grants that are to come, which it adds to a list; gives the first.
local function begunUntil(one, atMs, coming)
  local micros = one.begunMicros
  for _, grant in ipairs(one.pending) do
    if grant[1] <= atMs then micros = micros + grant[2]
    elseif coming then coming[#coming + 1] = classLike(one, { beginsAtMs = grant[1], micros = grant[2] }) end
  end
  return micros
end

-- Adds to classes; what has ended under a number begins again for a grant that Redis hears of after its end.
local function beginGrants(account, beginning)
  for _, one in ipairs(beginning) do
    local class, micros = classOf(account, one.number), one.micros
    if not class then
      local ended = endedOf(account, one.number)
      class = classLike(one, { left = 0, used = 0, granted = 0, taken = ended and ended.taken or 0 })
      account.classes[#account.classes + 1] = class
    end
    class.left, class.granted, class.taken = class.left + micros, class.granted + micros, class.taken + micros
    account.total = account.total + micros
  end
  table.sort(account.classes, drawnFirst)
  cover(account)
end

local function noteEnded(account, ended)
  local known = ended.from == 0 and endedOf(account, ended.number)
  if known then
    known.taken, known.atMs, known.used, known.held = ended.taken, nowMs, known.used + ended.used, known.held + ended.held
  else
    ended.atMs = nowMs
    account.ended[#account.ended + 1] = ended
  end
  account.kept = account.kept + ended.held
end

local function endClass(account, class)
  account.expired = account.expired + class.left
  change(account, class.number, 0, 0, class.left)
  noteEnded(account, {
    number = class.number, from = 0, taken = class.taken, used = class.used, held = class.granted - class.left - class.used,
  })
end

local function endClasses(account, atMs)
  local open = {}
  for _, class in ipairs(account.classes) do
    if class.endsAtMs <= atMs and class.rollEndsAtMs == 0 then
      endClass(account, class)
    else
      open[#open + 1] = class
      if class.endsAtMs <= atMs then
        local lost = max(0, class.left - class.rollMaxMicros)
        class.left, class.granted, account.expired = class.left - lost, class.granted - lost, account.expired + lost
        change(account, class.number, 0, 0, lost)
        class.endsAtMs, class.rollEndsAtMs = class.rollEndsAtMs, 0
      end
    end
  end
  account.classes = open
  table.sort(open, drawnFirst)
end

local function beginPending(account, atMs)
  local beginning, pending = {}, {}
  for _, one in ipairs(account.pending) do
    local list = one.beginsAtMs <= atMs and beginning or pending
    list[#list + 1] = one
  end
  account.pending, account.isBegun = pending, true
  beginGrants(account, beginning)
end

-- The first moments to come: of holds, of classes that end, of grants that begin.
local function nextMoments(account)
  local ends, begins = NEVER, NEVER
  for _, class in ipairs(account.classes) do ends = min(ends, class.endsAtMs) end
  for _, one in ipairs(account.pending) do begins = min(begins, one.beginsAtMs) end
  return nextHoldEnd(account), ends, begins
end

local makeClasses
do
  local OVERDRAWN = 0

  -- What a class paid beyond what it has is overdrawn.
  local function overdraw(account, one, beyond)
    one.used, account.overdrawn = one.used - beyond, account.overdrawn + beyond
    change(account, one.number, -beyond, 0, 0)
    change(account, OVERDRAWN, beyond, 0, 0)
  end

  -- What settings declare until an instant, by number, as if nothing was taken of it.
  local function declaredClasses(account, atMs)
    local known = {}
    for _, one in ipairs(account.taken.declared) do
      local taken = begunUntil(one, atMs, account.pending)
      if one.rollEndsAtMs > 0 and one.endsAtMs <= atMs then one.endsAtMs, one.rollEndsAtMs = one.rollEndsAtMs, 0 end
      known[one.number] = classLike(one, {
        taken = taken, granted = taken, used = 0, held = 0, lost = 0, expired = 0, from = 0, atMs = one.endsAtMs,
        isOver = one.endsAtMs <= atMs,
      })
      account.total = account.total + taken
    end
    return known
  end

  -- Adds what lines did to a class. One that settings do not declare has ended: a voided grant (from: of which class), or an older class.
  local function addSum(account, known, sum)
    local micros, of, from = sum.used + sum.held + sum.lost + sum.expired, known[sum.number], known[sum.from]
    account.used, account.expired = account.used + sum.used, account.expired + sum.expired
    if sum.number == OVERDRAWN then
      account.overdrawn = micros
    elseif of then
      of.used, of.held, of.lost, of.expired, of.granted = sum.used, sum.held, sum.lost, sum.expired, of.granted - sum.expired
      if from == of then of.isOver, of.atMs = true, sum.voidedAtMs end
    else
      known[sum.number] = {
        number = sum.number, from = sum.from, atMs = sum.voidedAtMs, taken = micros, used = sum.used, held = sum.held, lost = sum.lost,
        expired = sum.expired, isOver = true,
      }
      if from then from.granted = from.granted - micros else account.total = account.total + micros end
    end
  end

  -- What is left of one that has ended has expired, also where the books lack the line that said so, or have two, of which one came late.
  local function placeEnded(account, one)
    local share = one.granted and one.granted + one.expired or one.taken
    local beyond = max(0, one.used + one.held - share)
    local expired = share + beyond - one.used - one.held - one.expired
    overdraw(account, one, beyond)
    account.expired = account.expired + expired
    change(account, one.number, 0, 0, expired)
    account.ended[#account.ended + 1], account.kept = one, account.kept + one.held
  end

  local function placeOpen(account, one)
    one.left = one.granted - one.used - one.held
    account.classes[#account.classes + 1] = one
    -- Of a plain record all is its plain class's.
    local beyond = max(0, -one.left)
    one.left = one.left + beyond
    overdraw(account, one, beyond)
  end

  local function endedFirst(a, b)
    if a.atMs ~= b.atMs then return a.atMs < b.atMs end
    -- In one moment they end in drawing order.
    local first, second = a.priority or 0, b.priority or 0
    if first ~= second then return first < second end
    if a.ref and b.ref then return a.ref < b.ref end
    return a.number < b.number
  end

  -- The classes of an account of which lines sum up to this, as of the last of them: { number, used, held, lost, expired, from, voidedAtMs }
  -- (restoreAccount). All moments until then were done.
  function makeClasses(account, lastMs, sums)
    account.version, account.atMs, account.hasState = account.taken.version, lastMs, true
    account.used, account.pending, account.ended, account.alerts = 0, {}, {}, {}
    local known = declaredClasses(account, lastMs)
    for _, sum in ipairs(sums) do addSum(account, known, sum) end
    for _, one in pairs(known) do
      change(account, one.number, 0, -one.lost, 0)
      if one.isOver then placeEnded(account, one)
      elseif one.taken > 0 then placeOpen(account, one)
      elseif one.used > 0 then overdraw(account, one, one.used) end
    end
    table.sort(account.classes, drawnFirst)
    table.sort(account.ended, endedFirst)
    cover(account)
    account.untilMs = min(nextMoments(account))
  end
end
