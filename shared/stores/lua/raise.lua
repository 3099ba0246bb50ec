-- uses: names time build records used hot-account hold-line alerts-mark limits limits-of-holds holds account turns open-account
-- Raises what limits of a billing record and its keys have counted by usage that only the books know. Of each limit it keeps what it
-- was raised by, so repeating the call changes nothing. An alert that this crosses is told by a turn.
--
-- KEYS  1 meta, 2 billing record, 3 outbox, 4 what limits were raised by
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 epoch: the usage is of epochs below it
--       4 how many events it is, once all limits of the record and its keys were raised; "" before
--       and for the record and each key:
--       1 the key's id; "" of the record
--       2 the head of its counters, and 3 their settings, as parts/limits.lua has them
--       4 for each limit: its name, since when in ms there is usage, how much it is, and what KEYS[4] had of it
-- Gives {"OK", now in ms}
--       {"AGAIN", now}             a window has turned, another process has raised a limit, or more of the account fell due than one
--                                  call does: read again, and call again
--       {"UNSETTLED", now, error}  its balance is not known here
--       {"CLOSED" | "LATE", now}
local FIRST, FIELDS = 5, 4
local epoch = ARGV[3]
local tag, place = string.sub(KEYS[2], 1, 5), string.sub(KEYS[2], 8)
-- What was raised of limits on the record in windows of the calendar, and what is kept of all.
local raised, marks = {}, {}

local function placeOf(counters, name)
  for i = 1, #counters.head / 8 - 1 do
    if sub(counters.head, 8 * i - 7, 8 * i) == name then return i end
  end
end

-- The counters of an owner, which know all of its limits.
local function countersOf(owner, own)
  local counters = ownCounters(tag .. 'l:' .. (owner.keyId == '' and place or owner.keyId), own)
  for i = 1, #owner.head / 8 - 1 do
    if not placeOf(counters, sub(owner.head, 8 * i - 7, 8 * i)) then
      renewCounters(counters, owner.head, owner.settings, 1)
      break
    end
  end
  return counters
end

-- Raises a counter by usage that Redis has lost. False where its window is another one.
local function raiseCounter(counters, i, window, micros)
  local values = counters.values
  local slides, since = window < LONGEST_WINDOW, window
  if not slides and values[4 * i] > window then return false end
  if not slides and values[4 * i] < window then values[4 * i - 1], values[4 * i], values[4 * i + 2] = 0, window, window end
  if slides then
    local units, now = slideOf(window)
    since = now
  end
  correctCounter(counters, i, {
    window = window, since = since, held = 0, used = micros, isLost = true, alerts = '', crossed = {},
  })
  return true
end

local function raiseOwner(owner, own)
  local counters, asked, askedAt = countersOf(owner, own), owner.asked, 1
  local untilMs, settingsAt = unpackTexts('s', owner.settings)
  for i = 1, #owner.head / 8 - 1 do
    local name, sinceMs, micros, known, limit, window
    name, sinceMs, micros, known, askedAt = unpackTexts('ssss', asked, askedAt)
    limit, window, settingsAt = unpackTexts('ss', owner.settings, settingsAt)
    window = tonumber(window)
    local counter = sub(owner.head, 8 * i - 7, 8 * i)
    local field = owner.keyId .. ':' .. counter
    if (call('HGET', KEYS[4], field) or '') ~= known then return false end
    local knownSince, before = string.match(known, '^(%d+) (%d+)')
    local more = tonumber(micros) - (knownSince == sinceMs and tonumber(before) or 0)
    if more > 0 then
      local j = placeOf(counters, counter)
      local isOfRecord = owner.keyId == '' and window > LONGEST_WINDOW
      local was = isOfRecord and counters.values[4 * j] == window and counters.values[4 * j - 1] or 0
      if not raiseCounter(counters, j, window, more) then return false end
      if isOfRecord then
        raised[#raised + 1] = { name = name, was = was, level = counters.values[4 * j - 1], limit = tonumber(limit), window = window }
      end
      marks[#marks + 1], marks[#marks + 2] = field, sinceMs .. ' ' .. micros .. ' ' .. nowText
    end
  end
  return true
end

local function crossAlerts(account)
  for _, alert in ipairs(account.turn.alerts) do
    local name, kind, percent, limitName = unpackTexts('ssss', alert.text)
    for _, one in ipairs(kind == 'limit' and raised or {}) do
      -- As crossedAt does, without a product above 2^53.
      local rest = one.limit % 100
      local at = (one.limit - rest) / 100 * alert.value + math.ceil(rest * alert.value / 100)
      if one.name == limitName and one.was < at and one.level >= at then
        account.crossed = (account.crossed or '') .. alert.text .. format('%d.%d', one.window, alert.value) .. '\0'
      end
    end
  end
end

local function writeRaised(own)
  for _, counters in pairs(own) do
    if counters.changed then writeCounters(counters, call) end
  end
  if #marks == 0 then return end
  call('HSET', KEYS[4], unpack(marks))
  -- No window is longer.
  call('EXPIRE', KEYS[4], format('%d', CALENDAR_MS / 1000))
end

local function raiseAll(own)
  for i = FIRST, #ARGV, FIELDS do
    local owner = { keyId = ARGV[i], head = ARGV[i + 1], settings = ARGV[i + 2], asked = ARGV[i + 3] }
    if not raiseOwner(owner, own) then return false end
  end
  return true
end

local function raiseWithAccount(account, sequence)
  local record = call('HMGET', KEYS[2], 's', 't')
  account.epoch, account.sequence = epoch, sequence
  local changed, whole = turnAccount(account, KEYS[2], record[2], record[1])
  -- On top of what its turn gives back to them.
  local own = account.holdWrites.corrections and correctedCounters(account) or {}
  account.corrected = own
  if whole and not raiseAll(own) then return 'AGAIN' end
  if whole then crossAlerts(account) end
  if changed or account.crossed then
    tellTurn(account)
    appendLines(KEYS[3], account.lines)
    call('HSET', KEYS[2], 'u', usedTextOf(account), 'n' .. epoch, format('%d', account.sequence))
    writeState(account)
    own = {}
  end
  writeRaised(own)
  return whole and 'OK' or 'AGAIN'
end

local function raise()
  if ARGV[4] ~= '' then call('HSET', KEYS[2], 'l', ARGV[4]) end
  local counters = call('HMGET', KEYS[2], 'u', 'n' .. epoch)
  local account = ARGV[FIRST] == '' and readHot(counters[1] or '')
  if account then return raiseWithAccount(account, tonumber(counters[2] or 0)) end
  local own = {}
  if not raiseAll(own) then return 'AGAIN' end
  writeRaised(own)
  return 'OK'
end

local meta, token = passFence(KEYS[1], ARGV[1], 'epoch')
if not meta or not token and meta[3] ~= epoch then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local read, status = pcall(raise)
if read then return { status, nowText } end
return { 'UNSETTLED', nowText, type(status) == 'table' and status.err or tostring(status) }
