-- Turns of an account: walks its moments in the order of time, and takes new settings in.
--
-- Needs   names hot-account account holds
-- Defines accountOf(used, declared)        the account of a record that was plain until now: what it used is its plain class's
--         settleHold(account, hold, usage, how)   ends an open hold: debits the usage, and lets what is pinned pay; how as in
--                                          settledHold
--         walk(account, nowMs)             does all that fell due, moment by moment: holds end, then classes end, then grants
--                                          begin. False after MOST_STEPS holds and moments: then it has to be called again
--         takeSettings(account, declared, version, nowMs)   takes in what the settings of a version declare; nothing may be due.
--                                          For each class: class, begunMicros (of all grants of it that have begun, ever),
--                                          pending (those to come), firstVersion (of the settings that had it first)
--         voidGrant(account, name, before, micros)  ends a grant of a class, named <class>/<its own>; before is what stands
--                                          before it there, micros below 0 the whole class.
--                                          Before below 0: it had yet to begin, and is there only if it began since then
local MOST_STEPS = 100

local function drawnFirst(a, b)
  if a.priority ~= b.priority then return a.priority < b.priority end
  if a.endsAtMs ~= b.endsAtMs then return a.endsAtMs < b.endsAtMs end
  -- Begins with the age of the class.
  return a.ref < b.ref
end

local function classOf(classes, ref)
  for i, class in ipairs(classes) do
    if class.ref == ref then return class, i end
  end
end

local function accountOf(used, declared)
  local turn, total = newTurn(), 0
  for _, one in ipairs(declared) do
    local class = one.class
    if class.priority == 50 and class.endsAtMs == NEVER then
      total = one.begunMicros
      class.taken, class.granted, class.gave = total, total, min(used, total)
      turn.classes[1], turn.overdrawn = class, used - class.gave
    end
  end
  if #turn.classes == 0 then turn.overdrawn = used end
  turn.usedAtTurn = used
  return { used = used, held = 0, total = total, expired = 0, limit = 0, untilMs = NEVER, alertAt = NO_ALERT, told = {}, turn = turn }
end

local function settleHold(account, hold, usage, how)
  closeHold(account, hold, how, usage)
  account.used = account.used + usage
  if hold.turn < account.turn.boundary then
    settlePins(account, hold.micros, usage)
    account.isChanged = true
  end
end

-- Ends at most so many holds; gives how many there were to end, at most one more.
local function endHolds(account, atMs, most)
  local due, writes = holdsDue(account, atMs, most + 1), account.holdWrites
  for i = 1, min(#due, most) do
    local hold = readHold(account, due[i])
    writes.ended = writes.ended + 1
    if not hold then
      -- Only damage leaves an end without its hold.
      writes.closed[due[i]] = true
    elseif hold.onExpiry == 'charge' then
      settleHold(account, hold, hold.micros, 'charged')
      holdLine(account, hold, { kind = 'capture', cost = hold.micros, micros = hold.micros, detail = 'charged' })
    else
      settleHold(account, hold, 0, 'expired')
      holdLine(account, hold, { kind = 'release', cost = 0, micros = hold.micros, detail = 'expired' })
    end
  end
  return #due
end

-- Classes keep their places until all that end now have ended: one that rolls over covers its holds where it stood.
local function endClasses(account, atMs)
  local turn, kept, before, rolled = account.turn, {}, 0, {}
  for _, class in ipairs(turn.classes) do
    local left = class.granted - class.gave
    if class.endsAtMs > atMs then
      kept[#kept + 1], before = class, before + left
    elseif class.rollEndsAtMs > 0 then
      local free = left - coveredBy(account, left, before)
      local lost = free - min(free, class.rollMaxMicros)
      class.granted, account.expired = class.granted - lost, account.expired + lost
      tell(account, 'rolled', class.ref, lost)
      kept[#kept + 1], before, rolled[#rolled + 1] = class, before + left - lost, class
    else
      leaveClass(account, class, {
        name = class.ref, taken = class.taken, micros = class.granted, gave = class.gave, before = before,
      })
    end
  end
  turn.classes = kept
  for _, class in ipairs(rolled) do class.endsAtMs, class.rollEndsAtMs = class.rollEndsAtMs, 0 end
  if #rolled > 0 then table.sort(kept, drawnFirst) end
end

-- Adds to classes; new credits pay first what is overdrawn.
local function beginGrants(account, beginning)
  local turn = account.turn
  for _, one in ipairs(beginning) do
    local class = classOf(turn.classes, one.class.ref)
    if not class then
      class = one.class
      class.granted, class.gave = 0, 0
      turn.classes[#turn.classes + 1] = class
    end
    one.class = class
  end
  table.sort(turn.classes, drawnFirst)
  table.sort(beginning, function(a, b) return drawnFirst(a.class, b.class) end)
  for _, one in ipairs(beginning) do
    local class, micros = one.class, one.micros
    local covered = max(0, min(micros, turn.overdrawn))
    class.taken, class.granted, class.gave = class.taken + micros, class.granted + micros, class.gave + covered
    turn.overdrawn, account.total = turn.overdrawn - covered, account.total + micros
    tell(account, 'began', class.ref, micros)
  end
end

local function beginPending(account, atMs)
  local turn, beginning, pending = account.turn, {}, {}
  for _, one in ipairs(turn.pending) do
    local list = one.beginsAtMs <= atMs and beginning or pending
    list[#list + 1] = one
  end
  turn.pending = pending
  if #beginning > 0 then beginGrants(account, beginning) end
end

-- The first moments to come: of holds, of classes that end, of grants that begin.
local function nextMoments(account)
  local ends, begins = NEVER, NEVER
  for _, class in ipairs(account.turn.classes) do ends = min(ends, class.endsAtMs) end
  for _, one in ipairs(account.turn.pending) do begins = min(begins, one.beginsAtMs) end
  return nextHoldEnd(account), ends, begins
end

local function walk(account, nowMs)
  local turn, steps = account.turn, 0
  turn.number = turn.number + 1
  -- Settling adds to used, and leaves this to the turn that it asks for.
  watchAlerts(account)
  local holds, ends, begins = nextMoments(account)
  while min(holds, ends, begins) <= nowMs do
    local atMs = min(holds, ends, begins)
    if holds <= atMs then steps = steps + endHolds(account, atMs, MOST_STEPS - steps) end
    if steps > MOST_STEPS then break end
    if min(ends, begins) <= atMs then
      fold(account)
      if ends <= atMs then endClasses(account, atMs) end
      if begins <= atMs then beginPending(account, atMs) end
    end
    watchAlerts(account)
    holds, ends, begins = nextMoments(account)
    steps = steps + 1
    if steps >= MOST_STEPS then break end
  end
  account.untilMs = min(holds, ends, begins)
  local whole = account.untilMs > nowMs
  -- A clock that is set back never un-turns.
  if whole then turn.atMs = max(turn.atMs, nowMs) end
  return whole
end

-- Taken of a class until now; nil of one that ended so long ago that it is not known any more.
local function takenOf(turn, one, atMs)
  local known = classOf(turn.classes, one.class.ref) or classOf(turn.ended, one.class.ref)
  if known then return known.taken end
  local isNew = one.firstVersion > turn.version
  if isNew or max(one.class.endsAtMs, one.class.rollEndsAtMs) > atMs then return 0 end
end

local function takeSettings(account, declared, version, nowMs)
  local turn, atMs = account.turn, max(nowMs, account.turn.atMs)
  fold(account)
  forgetEnded(turn)
  local beginning, pending = {}, {}
  for _, one in ipairs(declared) do
    local class, target, taken = one.class, one.begunMicros, takenOf(turn, one, atMs)
    class.taken = taken or 0
    for _, grant in ipairs(taken and one.pending or {}) do
      if grant.beginsAtMs <= atMs then target = target + grant.micros
      else pending[#pending + 1] = { class = class, beginsAtMs = grant.beginsAtMs, micros = grant.micros } end
    end
    if taken and target > taken then beginning[#beginning + 1] = { class = class, micros = target - taken } end
  end
  turn.pending, turn.version = pending, version
  if #beginning > 0 then beginGrants(account, beginning) end
  -- One may have an end that is past.
  return walk(account, atMs)
end

-- What settings declare of a class until now.
local function declaredOf(account, ref)
  local micros = 0
  for _, one in ipairs(account.taken.declared) do
    if one.class.ref == ref then
      micros = one.begunMicros
      for _, grant in ipairs(one.pending) do
        if grant.beginsAtMs <= account.turn.atMs then micros = micros + grant.micros end
      end
    end
  end
  return micros
end

-- How much else of its class has yet to begin where a grant that was to come has begun: what came after its void was taken for a
-- part of it by an account that was restored. Nil unless it has begun.
local function restOf(account, class, micros)
  local beyond = class.taken - declaredOf(account, class.ref)
  if beyond > 0 and class.taken >= micros then return max(0, micros - beyond) end
end

-- The same of a class that has ended before Redis heard of it: nothing is left of it, but each void has numbers of its own.
local function voidEnded(account, ended, name, before, micros)
  if not ended then return false end
  if micros < 0 then micros = ended.taken end
  local rest = 0
  if before < 0 then
    rest = restOf(account, ended, micros)
    if not rest then return false end
    ended.taken = ended.taken - micros
    before = ended.taken
  end
  partEnded(account, ended, name, before, micros)
  for _, one in ipairs(rest > 0 and account.taken.declared or {}) do
    if one.class.ref == ended.ref then
      one.class.taken = ended.taken
      beginGrants(account, { { class = one.class, micros = rest } })
      endClasses(account, account.turn.atMs)
    end
  end
  return true
end

local function voidGrant(account, name, before, micros)
  fold(account)
  forgetEnded(account.turn)
  local turn, others = account.turn, 0
  turn.number = turn.number + 1
  local ref = string.match(name, '^[^/]*')
  local class, place = classOf(turn.classes, ref)
  if not class then return voidEnded(account, classOf(turn.ended, ref), name, before, micros) end
  for i = 1, place - 1 do others = others + turn.classes[i].granted - turn.classes[i].gave end
  if micros < 0 then micros = class.granted end
  local rest = 0
  if before < 0 then
    rest = restOf(account, class, micros)
    if not rest then return false end
    class.taken, before = class.taken - micros, class.granted - micros
  end
  local gave = max(0, min(class.gave - before, micros))
  before = others + max(0, before - class.gave)
  leaveClass(account, class, { name = name, taken = 0, micros = micros, gave = gave, before = before })
  if rest > 0 then beginGrants(account, { { class = class, micros = rest } }) end
  return true
end
