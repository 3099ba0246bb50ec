-- uses: time fence records remember limits limits-of-holds account account-state holds settings classes moments
-- Applies an adjustment to a billing record and appends its event, both or neither. Adjustment n is applied only after
-- n - 1 and only once, so repeating the call changes nothing. What is due for an account is done first.
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 number of the adjustment
--       4 amount in micro-credits
--       5 start of the event's JSON
--       6, 7, 8 and 9 of the void of a grant: its number as a class, that of its class, micro-credits before it in the class (below 0:
--       it had yet to begin), and of it (below 0: the whole class)
-- Gives {"OK", now in ms, used micro-credits}           it is applied, now or before
--       {"EARLY", now, number of the last adjustment}   adjustments before it are missing
--       {"ABSENT", now}                                 there is no such record here
--       {"UNSETTLED", now, error}                       its balance is not known here
--       {"AGAIN", now}                                  more of its account fell due than one call does
--       {"CLOSED" | "LATE", now}
-- The JSON that the caller began, with its time and the balance after it; more is what an account has besides.
local function eventText(used, sequence, epoch, more)
  return format('%s,"t":%s,"u":%.0f,"s":%.0f,"e":%s%s}', ARGV[5], nowText, used, sequence, epoch, more)
end

-- The last adjustment, what is used as text and as a number, the last sequence number, and the account. Raises an error where any
-- of that can't be read.
local function readBalance(record, epoch)
  local usedText, used, sequence = readUsed(KEYS[2], 'n' .. epoch)
  local account = (not used or hasClasses(record[1], KEYS[2])) and openAccount(usedText, KEYS[2], epoch, sequence)
  if account then usedText = format('%d', account.used) end
  local last = tonumber(record[2] or '0') or error('a counter of a billing record is no number')
  return last, usedText, used, sequence, account
end

-- What settings declare of a class until now.
local function declaredOf(account, number)
  for _, one in ipairs(account.taken.declared) do
    if one.number == number then return begunUntil(one, account.atMs) end
  end
  return 0
end

-- So much of a class (from), behind what stands before it in the class (below 0: it had yet to begin), becomes a class of its own (number),
-- which has ended; micros below 0: the whole class has.
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

-- The same for an account. Where more fell due than one call does, it does that alone.
local function adjustAccount(account, epoch)
  local amount = tonumber(ARGV[4])
  local whole = changeAccount(account, function()
    if ARGV[6] then voidGrant(account, tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]))
    elseif amount < 0 then giveBack(account, -amount)
    else draw(account, amount) end
    watchAlerts(account)
    local more = heldPart(account) .. changesPart(account, amount) .. crossedPart(account)
    account.lines[#account.lines + 1] = eventText(account.used, account.sequence, epoch, more)
  end)
  if not whole then return { 'AGAIN', nowText } end
  call('HSET', KEYS[2], 'a', ARGV[3])
  return { 'OK', nowText, format('%.0f', account.used) }
end

return script(function()
  local number = tonumber(ARGV[3])
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
    local adjusted, answer = pcall(adjustAccount, account, meta[2])
    return adjusted and answer or { 'UNSETTLED', nowText, whyOf(answer) }
  end

  used = used + tonumber(ARGV[4])
  usedText = format('%.0f', used)
  appendEntry(KEYS[3], eventText(used, sequence, meta[2], ''), 1)
  call('HSET', KEYS[2], 'u', usedText, 'a', ARGV[3])
  return { 'OK', nowText, usedText }
end)
