-- uses: time fence records remember limits limits-of-holds account account-state holds settings classes moments settle-hold
-- Cancels calls of verify.lua by their Idempotency-Keys, each on its own. What a VALID call took is given back: credits by a line of
-- the cancelled event's own time, a hold by its release, what limits and the rate counted as far as its window stands. A call that
-- has not come yet will be refused. Either is kept for 60 s in the place of what verify.lua keeps of the call, so that a second
-- cancel answers the same and changes nothing.
--
-- A call can be cancelled in the epoch that it was decided in. In a later one this Redis may have lost the line of a cancel that the
-- books have, or the call itself, so nobody here knows what is to be given back: it says so.
--
-- KEYS  one per call: the record of the secret. All other names share its hash tag and are made from it here.
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 "1" when the outbox is full
--       4.. one per call, packed: idempotencyHash, callerTeamId, callerWorkspaceIds (as in a question of verify.lua)
-- Gives {"OK", now in ms, then one per call, its fields between \31: status, detail}
--       The status is
--       "OK"           cancelled, now or before; the detail is how many micro-credits were given back
--       "UNKNOWN"      no such call took anything in the last 60 s, and none will for 60 s
--       "LOST"         the call may be of an earlier epoch, or its key is gone: what it took is not known here. None will come for 60 s
--       "CONFLICT"     "captured": its hold was; "given back": the record has used less than the call took
--       "AGAIN"        more of the account fell due than one script does
--       "ELSEWHERE"    the key is imported, and in the shard that is the detail
--       "UNSETTLED"    a balance is not known here; the detail says why
--       "OUTBOX_FULL" | "CLOSED" | "LATE"
local KEPT_SECONDS, KEPT_MS = '60', 60000
local match = string.match
local runId, late, outboxFull

-- Gives so much back, and tells it in the cancelled event's line; the status, nil where it is done.
local function giveBackTo(account, micros, lineOf)
  local whole, conflict = changeAccount(account, function()
    if account.used < micros then return 'CONFLICT\31given back' end
    giveBack(account, micros)
    watchAlerts(account)
    account.sequence = account.sequence + 1
    local more = changesPart(account, -micros) .. crossedPart(account)
    account.lines[#account.lines + 1] = lineOf(account.used, account.sequence, heldPart(account), more)
  end)
  return not whole and 'AGAIN' or conflict
end

-- What verify.lua kept of a call behind the rate limit.
local function readCall(onceRecord)
  local usageHash, rateLimit = unpackTexts('ss', onceRecord)
  local perSecond, arrivalTicks, atMs, epoch, sequence, eventStart, taken =
    match(rateLimit, '^(.-)\31(.-)\31.-\31(%d+)\31(%d+)\31(%d*)\31(.-)\31(.*)$')
  local event = cjson.decode(eventStart .. '}')
  return {
    perSecond = tonumber(perSecond), arrivalTicks = tonumber(arrivalTicks), atMs = atMs, epoch = epoch, taken = taken,
    isMetered = sequence ~= '', isHold = event.x == 'hold', id = sub(event.i, 5), route = event.r, micros = event.c, usageName = event.n,
  }
end

-- Gives back what a call debited; gives the status, nil where it is done. Also of nothing: by its line the books know that limits on
-- requests no longer count it.
local function giveCreditsBack(key, one)
  local billingKey, sequenceField = key.billingKey, 'n' .. one.epoch
  local billingId, billingRecord = ''
  if one.isMetered then
    billingRecord = call('HGET', billingKey, 's')
    billingId = match(billingRecord or error('a billing record is gone'), '^[^%z]*%z([^%z]*)')
  end
  -- The time is the call's: so all that sums usage, in whatever zone, sums to nothing.
  local function lineOf(used, sequence, held, more)
    local id = sub(redis.sha1hex(one.id .. ' ' .. one.epoch .. ' ' .. format('%d', sequence)), 1, 25)
    return format('{"x":"correction","i":"evt_0%s","r":%s,"c":%d,"n":%s,"t":%s,"k":"%s","b":"%s","v":"%s","u":%d,"s":%d,"e":%s%s,' ..
      '"o":"%s","m":0,"f":"cancelled"%s}', id, cjson.encode(one.route), -one.micros, cjson.encode(one.usageName), one.atMs, key.id,
      billingId, key.workspaceId, used, sequence, one.epoch, held, one.id, more)
  end
  if not one.isMetered then
    call('XADD', key.tag .. 'outbox', '*', 'e', lineOf(0, 0, '', ''))
    return nil
  end
  local usedText, used, sequence = readUsed(billingKey, sequenceField)
  if used and not hasClasses(billingRecord, billingKey) then
    if used < one.micros then return 'CONFLICT\31given back' end
    used, sequence = used - one.micros, sequence + 1
    call('XADD', key.tag .. 'outbox', '*', 'e', lineOf(used, sequence, '', ''))
    call('HSET', billingKey, 'u', format('%d', used), sequenceField, format('%d', sequence))
    return nil
  end
  return giveBackTo(openAccount(usedText, billingKey, one.epoch, sequence), one.micros, lineOf)
end

-- Releases what a call held, and corrects what was charged at its end; gives the status, nil where it is done, and how much it was.
local function releaseHold(key, one)
  local text = call('HGET', key.tag .. 'o:' .. sub(key.billingKey, 8), one.id)
  local micros = text and match(text, '^%d+') or '0'
  local function settle(what)
    local fields = { what, '0', one.id, one.epoch, '', '', '', micros, '0', '', one.atMs, key.id, one.usageName, '' }
    local usedText, _, sequence = readUsed(key.billingKey, 'n' .. one.epoch)
    if not usedText then error('a billing record is gone') end
    local status, detail
    local whole = changeAccount(openAccount(usedText, key.billingKey, one.epoch, sequence), function(account)
      status, detail = settleHold(account, readAsked(table.concat(fields, '\0')))
    end)
    return whole and status or 'AGAIN', detail
  end
  local status, detail = settle('release')
  if detail == 'charged' then
    local how, usage = unpackTexts('ss', call('GET', key.tag .. 'z:' .. one.id))
    micros, status, detail = usage, settle('capture')
  end
  if status == 'OK' then return nil, micros end
  return status == 'CONFLICT' and 'CONFLICT\31' .. detail or status == 'AGAIN' and 'AGAIN' or 'UNSETTLED\31' .. status
end

-- As much of a call's part in the rate as has surely not fallen: until the arrival time that it left, nothing else had.
local function giveRateBack(key, one)
  local rateKey = key.tag .. 'r:' .. key.id
  local arrival = one.perSecond and tonumber(call('GET', rateKey) or nil)
  if not arrival then return end
  local part = math.ceil(TICKS_PER_SECOND / one.perSecond) - math.max(0, nowTicks - one.arrivalTicks)
  if part > 0 then call('PSETEX', rateKey, '2000', format('%d', math.max(nowTicks, arrival - part))) end
end

local function giveLimitsBack(key, one)
  local known, names = {}, { key.tag .. 'l:' .. key.id, key.tag .. 'l:' .. sub(key.billingKey, 8) }
  for amount, noted in string.gmatch(one.taken, '(%d+)=([^ ]+ )') do
    correctLimits(noted, names, { held = tonumber(amount), used = 0 }, known)
  end
  for _, counters in pairs(known) do writeCounters(counters) end
end

local function cancel(keyText, packedCancel)
  local tag = sub(keyText, 1, 5)
  local shard = openShardOf(tag, runId, 'epoch', 'openedAt')
  if not shard then return 'CLOSED' end
  if late then return 'LATE' end
  if outboxFull then return 'OUTBOX_FULL' end
  local idempotencyHash, callerTeamId, callerWorkspaceIds = unpackFields('sss', packedCancel)
  local keyRecord = call('GET', keyText)
  if not keyRecord then return 'UNKNOWN' end
  local state, teamId, workspaceId, keyId, expiresAtMs, validUntilMs, ratePerSecond, addressList, meter = unpackKeyRecord(keyRecord)
  -- Its tombstone does not say whose it was.
  if not state then return 'LOST' end
  if teamId ~= callerTeamId then return 'UNKNOWN' end
  if state == '>' then return 'ELSEWHERE\31' .. workspaceId end
  if callerWorkspaceIds ~= '' and not find(callerWorkspaceIds, ' ' .. workspaceId .. ' ', 1, true) then return 'UNKNOWN' end

  local onceKey = tag .. 'i:' .. keyId .. ':' .. idempotencyHash
  local onceRecord = call('GET', onceKey)
  if onceRecord and sub(onceRecord, 1, 1) == '!' then
    -- As in verify.lua: WAIT then also covers the first cancel.
    call('PEXPIREAT', onceKey, call('PEXPIRETIME', onceKey))
    return sub(onceRecord, 2)
  end
  local answer
  if onceRecord then
    local one = readCall(onceRecord)
    if one.epoch ~= shard[2] then return 'LOST' end
    local key = { tag = tag, id = keyId, workspaceId = workspaceId, billingKey = tag .. 'b:' .. workspaceId .. ':' .. meter }
    local failed, micros = nil, format('%d', one.micros)
    if one.isHold then failed, micros = releaseHold(key, one)
    else failed = giveCreditsBack(key, one) end
    if failed then return failed end
    -- Whatever is wrong with these, the credits are given back once.
    pcall(giveRateBack, key, one)
    pcall(giveLimitsBack, key, one)
    answer = 'OK\31' .. micros
  else
    -- A call of an earlier epoch may have been lost, and be in the books.
    answer = nowMs < tonumber(shard[3] or '0') + KEPT_MS and 'LOST' or 'UNKNOWN'
  end
  call('SETEX', onceKey, KEPT_SECONDS, '!' .. answer)
  return answer
end

return script(function()
  runId, late, outboxFull = ARGV[1], nowMs > tonumber(ARGV[2]), ARGV[3] == '1'
  local answers = { 'OK', nowText }
  for i = 1, #KEYS do
    -- pcall: one corrupt record must not spoil the other calls.
    local decided, answer = pcall(cancel, KEYS[i], ARGV[i + 3])
    if not decided then answer = 'UNSETTLED\31' .. whyOf(answer) end
    answers[i + 2] = answer
  end
  return answers
end)
