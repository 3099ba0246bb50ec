-- The account of a record in Redis: brought up to date, told in a line, and written.
--
-- Needs   names time records hot-account alerts-mark account holds turns
-- Defines hasClasses(billingRecord, billingKey)  whether settings have classes of credits, or the workspace has default alerts: then
--                                    the record has an account
--         turnAccount(account, billingKey, stateText, billingRecord)  does all that fell due, and takes in the settings. The
--                                    texts are the fields t and s. Gives whether anything changed, and whether all is done:
--                                    if not, it has to be called again. The caller has set account.epoch and account.sequence,
--                                    the last number; lines are added to account.lines, each with the next one
--         limitOf(account)           the most that may be used and held, of an account that was turned
--         tellTurn(account)          adds the turn's line; all that changes a state ends with it
--         appendLines(outbox, lines) appends the JSON of lines as one entry
--         writeState(account)        after the field u was written: the field t, what became of holds, and when somebody has to
--                                    come again
local PLAIN_CLASS = '0000000000000000b:50:9000000000000000'

-- The default alerts of a record's workspace, with their mark; '' without any.
local function workspaceAlerts(billingKey)
  local mark, workspaceRecord, countAt = alertsMarkFor(billingKey)
  return mark, mark ~= '' and readAlerts(workspaceRecord, countAt) or {}
end

local function hasClasses(billingRecord, billingKey)
  return declaresClasses(billingRecord) or workspaceAlerts(billingKey) ~= ''
end

local function microsOf(credits)
  local whole, fraction = string.match(credits, '^(%d+)%.?(%d*)$')
  return tonumber(whole) * 1e6 + tonumber(string.sub(fraction .. '000000', 1, 6))
end

local function readDeclared(text, at)
  local class, firstVersion, begunMicros, pending
  class, at = readClass(text, at)
  firstVersion, begunMicros, pending, at = unpackTexts('sss', text, at)
  local one = { class = class, firstVersion = tonumber(firstVersion), begunMicros = tonumber(begunMicros), pending = {} }
  for beginsAtMs, micros in string.gmatch(pending, '(%d+):(%d+)') do
    one.pending[#one.pending + 1] = { beginsAtMs = tonumber(beginsAtMs), micros = tonumber(micros) }
  end
  return one, at
end

-- Settings without classes of their own declare one: what was bought, without an end.
local function plainClass(micros)
  local class = {
    ref = PLAIN_CLASS, priority = 50, endsAtMs = NEVER, rollEndsAtMs = 0, rollMaxMicros = 0, taken = 0, granted = 0, gave = 0,
  }
  return { class = class, firstVersion = 0, begunMicros = micros, pending = {} }
end

-- Adds its alerts to what settings declare: its own, which stand after its classes, or those of its workspace.
local function addAlerts(settings, billingRecord, ownAt, billingKey)
  local mark, alerts = workspaceAlerts(billingKey)
  local hasOwn = ownAt <= #billingRecord and string.byte(billingRecord, ownAt) ~= 0
  settings.alerts = hasOwn and readAlerts(billingRecord, ownAt) or alerts
  if mark == '' then return end
  if settings.isPlain then settings.name = '@' .. settings.version end
  settings.name, settings.isPlain = settings.name .. mark, false
end

local function readSettings(billingRecord, billingKey)
  if not billingRecord then error('a billing record is gone') end
  local version, billingId, limitMicros, answerPart, grantsAt = unpackFields('ssss', billingRecord)
  local said = cjson.decode('{' .. answerPart .. '}')
  local settings = {
    version = tonumber(version), billingId = billingId, isPlain = string.byte(limitMicros) ~= 64,
    allowsOverages = said.allowOverages == true, capMicros = said.spendCap and microsOf(said.spendCap) or MAX_MICROS,
  }
  if settings.isPlain then
    settings.name, settings.declared = string.match(limitMicros, '^%d+'), { plainClass(microsOf(said.totalCredits)) }
    grantsAt = #billingRecord + 1
  else
    local count, at = unpackTexts('s', billingRecord, grantsAt)
    settings.name = '@' .. version
    settings.declared, grantsAt = readItems(billingRecord, at, count, readDeclared)
  end
  addAlerts(settings, billingRecord, grantsAt, billingKey)
  return settings
end

local function turnAccount(account, billingKey, stateText, billingRecord)
  local settings = readSettings(billingRecord, billingKey)
  local changed, whole = account.isNew or nowMs >= account.untilMs, true
  if account.isNew then
    for name, value in pairs(accountOf(account.used, settings.declared)) do account[name] = value end
  else
    account.turn = readTurn(stateText)
  end
  account.billingKey, account.billingId, account.lines = billingKey, settings.billingId, account.lines or {}
  nameHolds(account, billingKey)
  if nowMs >= account.untilMs then whole = walk(account, nowMs) end
  if whole and (account.isNew or account.turn.version ~= settings.version) then
    changed, whole = true, takeSettings(account, settings.declared, settings.version, nowMs)
  end
  if whole and takeAlerts(account, settings.alerts) then changed = true end
  if whole then watchAlerts(account) end
  account.taken, account.settings, account.isNew, account.isPartial = settings, settings.name, nil, not whole
  return changed, whole
end

local function limitOf(account)
  local settings = account.taken
  return settings.allowsOverages and settings.capMicros or min(account.total - account.expired, settings.capMicros)
end

local function tellTurn(account)
  account.sequence, account.hasTurned, account.number = account.sequence + 1, true, account.turn.number
  local turn, settings, epoch, sequenceText = account.turn, account.taken, account.epoch, format('%d', account.sequence)
  if account.holdWrites.corrections then account.corrected = correctedCounters(account) end
  -- Between two scripts that do the parts of one moment, alerts wait for its end.
  if not account.isPartial then watchAlerts(account) end
  account.limit, account.alertAt = limitOf(account), nextAlert(account)
  -- With nothing that a number could not tell, it is a number again.
  account.isPlain = settings.isPlain and account.untilMs == NEVER and account.held == 0 and turn.pinned == 0 and
    account.expired == 0 and account.total == settings.declared[1].begunMicros
  local before = turn.line
  turn.line = 'evt_0' .. string.sub(redis.sha1hex(account.billingId .. ' ' .. epoch .. ' ' .. sequenceText), 1, 25)
  account.stateText = packTurn(turn)
  local detail = before .. format('\0%d\0%d\0', account.total, account.expired) .. table.concat(account.told, '\n') .. '\0' ..
    account.stateText
  account.lines[#account.lines + 1] = '{"x":"turn","i":"' .. turn.line .. '","r":"","c":0,"n":"","t":' .. nowText .. ',"k":"","b":"' .. account.billingId ..
    '","v":"' .. string.match(account.billingKey, '^[^:]*', 8) ..
    '","u":' .. format('%d', account.used) .. ',"s":' .. sequenceText .. ',"e":' .. epoch .. heldPart(account) .. ',"g":' ..
    cjson.encode(detail) .. crossedPart(account) .. '}'
end

local function appendLines(outbox, lines)
  call('XADD', outbox, '*', 'e', table.concat(lines, '\n'))
  -- As in verify.lua: the count only steers a limit.
  if #lines > 1 then redis.pcall('INCRBY', string.sub(outbox, 1, 5) .. 'more', format('%d', #lines - 1)) end
end

local function writeState(account)
  local due = string.sub(account.billingKey, 1, 5) .. 'due'
  if account.isPlain then call('HDEL', account.billingKey, 't')
  elseif account.stateText then call('HSET', account.billingKey, 't', account.stateText) end
  if account.holdWrites then writeHolds(account) end
  -- Only the sweeper goes by it: whatever is wrong with it, the state has its line, and a call at its moment turns it.
  if account.untilMs < NEVER then redis.pcall('ZADD', due, format('%d', account.untilMs), account.billingKey)
  else redis.pcall('ZREM', due, account.billingKey) end
end
