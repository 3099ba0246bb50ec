-- Moments of an account: does what fell due in the order of time, takes new settings in, and writes what it became.
--
-- Needs   names time records limits account account-state holds
-- Defines hasClasses(billingRecord, billingKey)   whether settings have classes of credits, or the workspace has default alerts: then
--                                 the record has an account
--         bringUpToDate(account)  reads the account's state and settings, does all that fell due, moment by moment (holds end, then classes
--                                 end, then grants begin), and takes the settings in. False after MOST_STEPS holds and moments: then it has
--                                 to be called again. In account.lines are the lines of holds that ended, in account.billingRecord the
--                                 settings
--         voidGrant(account, number, from, before, micros)   so much of a class (from), behind what stands before it in the class (below 0:
--                                 it had yet to begin), becomes a class of its own (number), which has ended; micros below 0: the whole
--                                 class has
--         settleLimits(account)   the most that may be used and held, and at how much used an alert is crossed, as they are now
--         tellMoment(account)     does so, and adds a line of its own where something happened that no other line says
--         writeAccount(account)   after its lines were appended: all of it
--         changeAccount(account, change)   brings it up to date and, unless more fell due than one call does, makes a change; writes what it
--                                 became, its lines first. Gives whether it did, and what change(account) gave
local OVERDRAWN, PLAIN_CLASS, MOST_STEPS = 0, 1, 100

-- The default alerts of a record's workspace, and a mark that changes with them; '' without any.
local function workspaceAlerts(billingKey)
  local workspaceId = string.match(billingKey, '^b:([^:]+):', 6)
  local workspaceRecord = workspaceId and call('HGET', sub(billingKey, 1, 5) .. 'w:' .. workspaceId, 'd')
  if not workspaceRecord or find(workspaceRecord, '\0-\0', 1, true) then return '', {} end
  local version, defaultRatePerSecond, defaultAddressList, alertsAt = unpackFields('sss', workspaceRecord)
  if alertsAt > #workspaceRecord then return '', {} end
  local alertsMark, declaredAt = unpackFields('s', workspaceRecord, alertsAt)
  return alertsMark, readAlerts(sub(workspaceRecord, declaredAt))
end

local function hasClasses(billingRecord, billingKey)
  return declaresClasses(billingRecord) or workspaceAlerts(billingKey) ~= ''
end

local function microsOf(credits)
  local whole, fraction = string.match(credits, '^(%d+)%.?(%d*)$')
  return tonumber(whole) * 1e6 + tonumber(string.sub(fraction .. '000000', 1, 6))
end

local function readSettings(billingRecord, billingKey)
  if not billingRecord then error('a billing record is gone') end
  local version, billingId, limitMicros, answerPart, grantsAt = unpackFields('ssss', billingRecord)
  local said = cjson.decode('{' .. answerPart .. '}')
  local mark, alerts = workspaceAlerts(billingKey)
  local settings = {
    version = tonumber(version), billingId = billingId, isPlain = string.byte(limitMicros) ~= 64 and mark == '', alerts = alerts,
    allowsOverages = said.allowOverages == true, capMicros = said.spendCap and microsOf(said.spendCap) or MAX_MICROS,
  }
  settings.name = settings.isPlain and string.match(limitMicros, '^%d+') or '@' .. version .. mark
  if string.byte(limitMicros) ~= 64 then
    -- They declare what was bought, without an end.
    settings.declared = {
      {
        ref = '', number = PLAIN_CLASS, priority = 50, endsAtMs = NEVER, rollEndsAtMs = 0, rollMaxMicros = 0, firstVersion = 0,
        begunMicros = microsOf(said.totalCredits), pending = {},
      },
    }
    return settings
  end
  local grants, alertsAt = unpackFields('s', billingRecord, grantsAt)
  settings.declared = readItems('declared', cjson.decode(grants))
  -- Its own alerts come in place of those of its workspace.
  if alertsAt <= #billingRecord then settings.alerts = readAlerts(sub(billingRecord, alertsAt)) end
  return settings
end

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

-- Ends at most so many holds, those that are released first: what comes back is there for what is charged. Gives how many there were
-- to end, at most one more.
local function endHolds(account, atMs, most)
  local due, told = holdsDue(account, atMs, most + 1), account.changes
  local releasing, charging = {}, {}
  for i = 1, min(#due, most) do
    local hold = readHold(account, due[i])
    account.holdWrites.ended = account.holdWrites.ended + 1
    if not hold then
      -- Only damage leaves an end without its hold.
      account.holdWrites.closed[due[i]] = true
    elseif hold.onExpiry == 'charge' then charging[#charging + 1] = hold
    else releasing[#releasing + 1] = hold end
  end
  for _, hold in ipairs(releasing) do
    account.changes = {}
    closeHold(account, hold, 'expired', 0)
    holdLine(account, hold, { kind = 'release', cost = 0, micros = hold.micros, detail = 'expired' })
  end
  for _, hold in ipairs(charging) do
    account.changes = {}
    closeHold(account, hold, 'charged', hold.micros)
    holdLine(account, hold, { kind = 'capture', cost = hold.micros, micros = hold.micros, detail = 'charged' })
  end
  account.changes = told
  return #due
end

-- The first moments to come: of holds, of classes that end, of grants that begin.
local function nextMoments(account)
  local ends, begins = NEVER, NEVER
  for _, class in ipairs(account.classes) do ends = min(ends, class.endsAtMs) end
  for _, one in ipairs(account.pending) do begins = min(begins, one.beginsAtMs) end
  return nextHoldEnd(account), ends, begins
end

local function walk(account, untilMs)
  local steps = 0
  local holds, ends, begins = nextMoments(account)
  while min(holds, ends, begins) <= untilMs and steps < MOST_STEPS do
    local atMs = min(holds, ends, begins)
    if holds <= atMs then steps = steps + endHolds(account, atMs, MOST_STEPS - steps) end
    -- Between two scripts that do the parts of one moment, alerts wait for its end.
    if steps > MOST_STEPS then break end
    cover(account)
    if ends <= atMs then endClasses(account, atMs) end
    if begins <= atMs then beginPending(account, atMs) end
    watchAlerts(account)
    holds, ends, begins = nextMoments(account)
    steps = steps + 1
  end
  account.untilMs = min(nextMoments(account))
  local whole = account.untilMs > untilMs
  -- A clock that is set back never takes back a moment.
  if whole then account.atMs = max(account.atMs, untilMs) end
  return whole
end

-- Taken of a class until now; nil of one that ended so long ago that it is not known any more.
local function takenOf(account, one, atMs)
  local known = classOf(account, one.number) or endedOf(account, one.number)
  if known then return known.taken end
  if one.firstVersion > account.version or max(one.endsAtMs, one.rollEndsAtMs) > atMs then return 0 end
end

local function takeSettings(account, settings)
  local atMs, beginning = max(nowMs, account.atMs), {}
  forgetEnded(account)
  account.pending = {}
  for _, one in ipairs(settings.declared) do
    local taken = takenOf(account, one, atMs)
    local micros = taken and begunUntil(one, atMs, account.pending) - taken or 0
    if micros > 0 then beginning[#beginning + 1] = classLike(one, { micros = micros }) end
  end
  account.version, account.isBegun = settings.version, account.isBegun or #beginning > 0
  beginGrants(account, beginning)
  -- One may have an end that is past.
  return walk(account, atMs)
end

-- What a class paid beyond what it has is overdrawn.
local function overdraw(account, one, beyond)
  one.used, account.overdrawn = one.used - beyond, account.overdrawn + beyond
  change(account, one.number, -beyond, 0, 0)
  change(account, OVERDRAWN, beyond, 0, 0)
end

-- The classes of an account of which lines sum up to this, as of the last of them: { number, used, held, lost, expired, from, voidedAtMs }
-- (restoreAccount). All moments until then were done.
local function makeClasses(account, lastMs, sums)
  local known = {}
  account.version, account.atMs, account.hasState = account.taken.version, lastMs, true
  account.used, account.pending, account.ended, account.alerts = 0, {}, {}, {}
  for _, one in ipairs(account.taken.declared) do
    local taken = begunUntil(one, lastMs, account.pending)
    if one.rollEndsAtMs > 0 and one.endsAtMs <= lastMs then one.endsAtMs, one.rollEndsAtMs = one.rollEndsAtMs, 0 end
    known[one.number] = classLike(one, {
      taken = taken, granted = taken, used = 0, held = 0, lost = 0, expired = 0, from = 0, atMs = one.endsAtMs,
      isOver = one.endsAtMs <= lastMs,
    })
    account.total = account.total + taken
  end
  for _, sum in ipairs(sums) do
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
      -- What settings no longer declare has ended.
      if from then from.granted = from.granted - micros else account.total = account.total + micros end
    end
  end
  for _, one in pairs(known) do
    change(account, one.number, 0, -one.lost, 0)
    if one.isOver then
      -- What is left of it has expired, also where the books lack the line that said so, or have two, of which one came late.
      local share = one.granted and one.granted + one.expired or one.taken
      local beyond = max(0, one.used + one.held - share)
      local expired = share + beyond - one.used - one.held - one.expired
      overdraw(account, one, beyond)
      account.expired = account.expired + expired
      change(account, one.number, 0, 0, expired)
      account.ended[#account.ended + 1], account.kept = one, account.kept + one.held
    elseif one.taken > 0 then
      one.left = one.granted - one.used - one.held
      account.classes[#account.classes + 1] = one
      -- Of a plain record all is its plain class's.
      local beyond = max(0, -one.left)
      one.left = one.left + beyond
      overdraw(account, one, beyond)
    elseif one.used > 0 then
      overdraw(account, one, one.used)
    end
  end
  table.sort(account.classes, drawnFirst)
  table.sort(account.ended, function(a, b)
    if a.atMs ~= b.atMs then return a.atMs < b.atMs end
    -- In one moment they end in drawing order.
    local first, second = a.priority or 0, b.priority or 0
    if first ~= second then return first < second end
    if a.ref and b.ref then return a.ref < b.ref end
    return a.number < b.number
  end)
  cover(account)
  account.untilMs = min(nextMoments(account))
end

local function bringUpToDate(account)
  local record = call('HMGET', account.billingKey, 't', 's', 'a')
  account.adjustments = tonumber(record[3] or '0')
  local settings, whole = readSettings(record[2], account.billingKey), true
  account.taken, account.billingId, account.billingRecord = settings, settings.billingId, record[2]
  nameHolds(account)
  if account.isNew then
    makeClasses(account, 0, { { number = PLAIN_CLASS, used = account.used, held = 0, lost = 0, expired = 0 } })
    account.isBegun = #account.classes > 1
  elseif not account.hasState then
    readState(account, record[1])
  end
  if nowMs >= account.untilMs then whole = walk(account, nowMs) end
  if whole and account.version ~= settings.version then whole = takeSettings(account, settings) end
  if whole then
    takeAlerts(account, settings.alerts)
    watchAlerts(account)
  end
  account.isNew = nil
  account.settings = settings.name
  return whole
end

-- What settings declare of a class until now.
local function declaredOf(account, number)
  for _, one in ipairs(account.taken.declared) do
    if one.number == number then return begunUntil(one, account.atMs) end
  end
  return 0
end

local function voidGrant(account, number, from, before, micros)
  forgetEnded(account)
  local class, place = classOf(account, from)
  local of = class or endedOf(account, from)
  -- One that had yet to begin and never did, or of a class that is forgotten.
  if not of or before < 0 and of.taken <= declaredOf(account, from) then return end
  if micros < 0 then
    if class then endClass(account, table.remove(account.classes, place)) end
    return
  end
  local left = class and class.left or 0
  local held = class and class.granted - class.left - class.used or of.held
  if before < 0 then
    of.taken = of.taken - micros
    -- It was the last to begin.
    before = class and class.granted - micros or of.taken
  end
  local used = max(0, min(of.used - before, micros))
  held = max(0, min(of.used + held, before + micros) - max(of.used, before))
  local rest = micros - used - held
  of.used = of.used - used
  if class then
    class.granted, class.left, account.expired = class.granted - micros, class.left - rest, account.expired + rest
    change(account, class.number, -used, -held, 0)
  else
    of.held, account.kept = of.held - held, account.kept - held
    change(account, of.number, -used, -held, -rest)
  end
  change(account, number, used, held, rest)
  noteEnded(account, { number = number, from = from, taken = micros, used = used, held = held })
end

-- What calls compare: the most that may be used and held, when the next alert is crossed, and whether a number could tell all of it.
local function settleLimits(account)
  local settings = account.taken
  local credits = account.total - account.expired
  account.limit = settings.allowsOverages and settings.capMicros or min(credits, settings.capMicros)
  account.alertAt = nextAlert(account)
  account.isPlain = settings.isPlain and account.untilMs == NEVER and account.kept == 0 and account.expired == 0 and
    account.total == settings.declared[1].begunMicros
end

local function tellMoment(account)
  -- The limits of this call are judged after what holds that ended give back to them.
  correctCounters(account)
  settleLimits(account)
  local said = changesPart(account, 0) .. crossedPart(account)
  -- Who waits for credits is told that some have begun.
  if said == '' and not account.isBegun then return end
  account.isBegun = false
  account.sequence = account.sequence + 1
  local epoch, sequence = account.epoch, format('%d', account.sequence)
  local id = string.sub(redis.sha1hex(account.billingId .. ' ' .. epoch .. ' ' .. sequence), 1, 25)
  account.lines[#account.lines + 1] = '{"x":"turn","i":"evt_0' .. id .. '","r":"","c":0,"n":"","t":' .. nowText .. ',"k":"","b":"' ..
    account.billingId .. '","v":"' .. string.match(account.billingKey, '^[^:]*', 8) .. '","u":' .. format('%d', account.used) ..
    ',"s":' .. sequence .. ',"e":' .. epoch .. heldPart(account) .. said .. '}'
end

local function writeAccount(account)
  local billingKey = account.billingKey
  writeHot(account)
  if account.holdWrites then writeHolds(account) elseif not account.hasState then return end
  for _, counters in pairs(account.counters) do writeCounters(counters) end
  if account.hasState and isNumber(account) then call('HDEL', billingKey, 't')
  elseif account.hasState then call('HSET', billingKey, 't', packState(account)) end
  -- apply.lua puts a record there whose settings it writes.
  if not account.hasState and account.untilMs == account.dueMs then return end
  local due = sub(billingKey, 1, 5) .. 'due'
  -- Only the sweeper goes by it: whatever is wrong with it, a call at its moment does it.
  if account.untilMs < NEVER then redis.pcall('ZADD', due, format('%d', account.untilMs), billingKey)
  else redis.pcall('ZREM', due, billingKey) end
end

local function changeAccount(account, change)
  local whole, answer = bringUpToDate(account), nil
  tellMoment(account)
  if whole then
    answer = change(account)
    settleLimits(account)
  end
  if #account.lines > 0 then appendLines(string.sub(account.billingKey, 1, 5) .. 'outbox', account.lines) end
  writeAccount(account)
  return whole, answer
end
