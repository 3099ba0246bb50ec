-- uses: names time fence records used event hot-account hold-line alerts-mark account limits limits-of-holds holds turns open-account
-- Applies an adjustment to a billing record and appends its event, both or neither. Adjustment n is applied only after
-- n - 1 and only once, so repeating the call changes nothing. An account turns first where something is due; what is given back
-- to it, its classes get again, which is a turn too. The turn's line stands after the event.
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 number of the adjustment
--       4 amount in micro-credits
--       5 start of the event's JSON
--       6, 7 and 8 of the void of a grant: its name (<class>/<its own>), micro-credits before it in the class (below 0: it had yet
--       to begin), and of it (below 0: the whole class)
-- Gives {"OK", now in ms, used micro-credits}           it is applied, now or before
--       {"EARLY", now, number of the last adjustment}   adjustments before it are missing
--       {"ABSENT", now}                                 there is no such record here
--       {"UNSETTLED", now, error}                       its balance is not known here
--       {"AGAIN", now}                                  more of its account fell due than one call does
--       {"CLOSED" | "LATE", now}
local number, amount, voided = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[6]

local function whyOf(raised) return type(raised) == 'table' and raised.err or tostring(raised) end

-- The last adjustment, what is used as text and as a number, the last sequence number, and the account. Raises an error where any
-- of that can't be read.
local function readBalance(record, epoch)
  local usedText, used, sequence = readUsed(KEYS[2], 'n' .. epoch)
  local account = (not used or hasClasses(record[1], KEYS[2])) and openAccount(usedText)
  if account then usedText = format('%d', account.used) end
  local last = tonumber(record[2] or '0') or error('a counter of a billing record is no number')
  return last, usedText, used, sequence, account
end

-- The same for an account. Where more fell due than one call does, it does that alone.
local function adjustAccount(account, epoch, sequence)
  local state = call('HMGET', KEYS[2], 't', 's')
  account.epoch, account.sequence = epoch, sequence
  local changed, whole = turnAccount(account, KEYS[2], state[1], state[2])
  if whole and voided then changed = voidGrant(account, voided, tonumber(ARGV[7]), tonumber(ARGV[8])) or changed
  elseif whole and amount < 0 then giveBack(account, -amount)
  elseif whole then account.used = account.used + amount end
  if whole then
    watchAlerts(account)
    local crossed = crossedPart(account)
    account.lines[#account.lines + 1] = eventText(ARGV[5], account.used, account.sequence, epoch, account.held, crossed)
    changed = changed or crossed ~= ''
  end
  if changed or amount < 0 then tellTurn(account) end
  appendLines(KEYS[3], account.lines)
  call('HSET', KEYS[2], 'u', usedTextOf(account))
  if whole then call('HSET', KEYS[2], 'a', ARGV[3]) end
  if account.hasTurned then
    call('HSET', KEYS[2], 'n' .. epoch, format('%d', account.sequence))
    writeState(account)
  end
  return whole and { 'OK', nowText, format('%.0f', account.used) } or { 'AGAIN', nowText }
end

local meta = openShard(KEYS[1], ARGV[1], 'epoch')
if not meta then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local record = redis.pcall('HMGET', KEYS[2], 's', 'a')
if record.err then return { 'UNSETTLED', nowText, record.err } end
if not record[1] then return { 'ABSENT', nowText } end
local read, last, usedText, used, sequence, account = pcall(readBalance, record, meta[2])
if not read then return { 'UNSETTLED', nowText, whyOf(last) } end
if number <= last then return { 'OK', nowText, usedText } end
if number > last + 1 then return { 'EARLY', nowText, format('%.0f', last) } end
if account then
  local adjusted, answer = pcall(adjustAccount, account, meta[2], sequence)
  return adjusted and answer or { 'UNSETTLED', nowText, whyOf(answer) }
end

used = used + amount
usedText = format('%.0f', used)
appendEvent(KEYS[3], ARGV[5], used, sequence, meta[2])
call('HSET', KEYS[2], 'u', usedText, 'a', ARGV[3])
return { 'OK', nowText, usedText }
