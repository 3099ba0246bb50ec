-- Moments of an account: does what fell due in the order of time, takes new settings in, and writes what it became.
--
-- Defines bringUpToDate(account)  reads the account's state and settings, does all that fell due, moment by moment (holds end, then classes
--                                 end, then grants begin), and takes the settings in. False after MOST_STEPS holds and moments: then it has
--                                 to be called again. In account.lines are the lines of holds that ended, in account.billingRecord the
--                                 settings
--         settleLimits(account)   the most that may be used and held, and at how much used an alert is crossed, as they are now
--         tellMoment(account)     does so, and adds a line of its own where something happened that no other line says
--         writeAccount(account)   after its lines were appended: all of it
--         changeAccount(account, change)   brings it up to date and, unless more fell due than one call does, makes a change; writes what it
--                                 became, its lines first. Gives whether it did, and what change(account) gave
local MOST_STEPS = 100

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
  account.lines[#account.lines + 1] = '{"x":"moment","i":"evt_0' .. id .. '","r":"","c":0,"n":"","t":' .. nowText .. ',"k":"","b":"' ..
    account.billingId .. '","v":"' .. string.match(account.billingKey, '^[^:]*', 8) .. '","u":' .. format('%d', account.used) ..
    ',"s":' .. sequence .. ',"e":' .. epoch .. heldPart(account) .. said .. '}'
end

local function writeAccount(account)
  local billingKey = account.billingKey
  call('HSET', billingKey, 'u', usedTextOf(account), 'n' .. account.epoch, format('%d', account.sequence))
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
