-- After the parts names, holds, account and turns.
-- Commands of the model (commands.ts) on a record with an account, at a time that the test says. It stands for the scripts
-- that will use these parts, and keeps nothing of what those have besides: no fence, no outbox, no numbers.
--
-- KEYS  1 record, 2 open holds, 3 their ends, 4 settled holds
-- ARGV  1 now in ms, 2 command, 3.. what it needs
-- Gives {answer, used, held, total, expired, limit, untilMs, turn, what was told in lines}
local LATE_MS = 86400000
local nowMs, command = tonumber(ARGV[1]), ARGV[2]

local record = call('HMGET', KEYS[1], 'u', 't', 's')
local version, overages, capMicros, classes, at = struct.unpack('ssss', record[3])
local function readDeclared(text, at)
  local class, firstVersion, begun, pending
  class, at = readClass(text, at)
  firstVersion, begun, pending, at = struct.unpack('sss', text, at)
  local one = { class = class, firstVersion = tonumber(firstVersion), begunMicros = tonumber(begun), pending = {} }
  for beginsAtMs, micros in string.gmatch(pending, '(%d+):(%d+)') do
    one.pending[#one.pending + 1] = { beginsAtMs = tonumber(beginsAtMs), micros = tonumber(micros) }
  end
  return one, at
end

local account = record[1] and readHot(record[1])
if account then account.turn = readTurn(record[2]) else
  account = accountOf(tonumber(record[1] or 0), readItems(record[3], at, classes, readDeclared))
end
account.holdsKey, account.endsKey = KEYS[2], KEYS[3]

if nowMs >= account.untilMs then
  local whole, calls = false, 0
  while not whole do
    whole, calls = walk(account, nowMs), calls + 1
    if calls > 100 then error('a turn has no end') end
  end
end
if tonumber(version) ~= account.turn.version then
  takeSettings(account, readItems(record[3], at, classes, readDeclared), tonumber(version), nowMs)
end

local function limit()
  return overages == '1' and tonumber(capMicros) or min(account.total - account.expired, tonumber(capMicros))
end

local function passes(micros) return micros == 0 or account.used + account.held + micros <= limit() end

local commands = {}

function commands.turn() return 'DONE' end

function commands.verify(micros)
  micros = tonumber(micros)
  if not passes(micros) then return 'REFUSED' end
  account.used = account.used + micros
  return 'VALID'
end

function commands.hold(id, micros, expiresIn, onExpiry)
  local hold = { micros = tonumber(micros), endsAtMs = nowMs + expiresIn, onExpiry = onExpiry }
  if not passes(hold.micros) then return 'REFUSED' end
  openHold(account, id, hold)
  account.untilMs = min(account.untilMs, hold.endsAtMs)
  call('HSET', KEYS[4], 'end:' .. id, hold.endsAtMs)
  return 'VALID'
end

-- What an expiry settled stands in the lines; here the test remembers it.
local function settledOf(id)
  return string.match(call('HGET', KEYS[4], id) or 'OPEN 0', '^(%S+) (%d+)')
end

function commands.capture(id, usage)
  usage = tonumber(usage)
  local state, charged = settledOf(id)
  local change = usage - (state == 'CHARGED' and tonumber(charged) or 0)
  if state == 'CAPTURED' then return tonumber(charged) == usage and 'DONE' or 'CONFLICT' end
  if state == 'RELEASED' then return 'CONFLICT' end
  if nowMs >= tonumber(call('HGET', KEYS[4], 'end:' .. id)) + LATE_MS then return 'UNKNOWN' end
  if account.used + change > MAX_MICROS then return 'TOO_LARGE' end
  if account.used + change < 0 then return 'CONFLICT' end
  if state == 'OPEN' then settleHold(account, id, usage)
  elseif change < 0 then giveBack(account, -change)
  else account.used = account.used + change end
  call('HSET', KEYS[4], id, format('CAPTURED %d', usage))
  return 'DONE'
end

function commands.release(id)
  local state = settledOf(id)
  if state == 'OPEN' then
    settleHold(account, id, 0)
    call('HSET', KEYS[4], id, 'RELEASED 0')
  end
  return (state == 'CAPTURED' or state == 'CHARGED') and 'CONFLICT' or 'DONE'
end

function commands.extend(id, expiresIn)
  if not readHold(account, id) then return 'CONFLICT' end
  local endsAtMs = nowMs + expiresIn
  call('ZADD', KEYS[3], endsAtMs, id)
  call('HSET', KEYS[4], 'end:' .. id, endsAtMs)
  account.untilMs = min(account.untilMs, endsAtMs)
  return 'DONE'
end

function commands.adjust(micros)
  micros = tonumber(micros)
  if account.used + micros < 0 then return 'CONFLICT' end
  if account.used + micros > MAX_MICROS then return 'TOO_LARGE' end
  if micros < 0 then giveBack(account, -micros) else account.used = account.used + micros end
  return 'DONE'
end

function commands.void(ref, before, micros)
  voidGrant(account, ref, tonumber(before), tonumber(micros))
  return 'DONE'
end

for _, line in ipairs(account.told) do
  local what, id, micros = string.match(line, '^(%S+) (%S+) (%d+)')
  if what == 'charged' then call('HSET', KEYS[4], id, 'CHARGED ' .. micros) end
  if what == 'released' then call('HSET', KEYS[4], id, 'EXPIRED 0') end
end
local answer = commands[command](unpack(ARGV, 3))
account.limit = limit()
local turnText = packTurn(account.turn)
call('HSET', KEYS[1], 'u', packHot(account), 't', turnText)
return {
  answer, format('%d', account.used), format('%d', account.held), format('%d', account.total), format('%d', account.expired),
  format('%d', account.limit), format('%d', account.untilMs), turnText, table.concat(account.told, '\n'),
}
