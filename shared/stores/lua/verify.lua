-- uses: time fence records remember lookup limits limits-of-holds account account-state holds settings classes moments
-- Decides verifications, each on its own: reads what a call goes by, judges it, and takes its rate token, credits and counts. A later
-- one goes by what those before it took. Then all is written, all or nothing: first the events of all of them as one entry of the
-- outbox. Redis runs no script once its memory is full, so no write of one is refused.
--
-- Lookups. What the records of a key, its workspace and its billing record say to one question (whose token asks, for
-- which scopes) seldom changes. The script looks it up once and answers it as a "lookup"; the caller keeps the lookup and
-- sends it along the next time. It holds until a record of the shard is written: apply.lua counts those writes, and a
-- change is in force for the very next call. Rate limits and used credits change with each call and are always read.
--
-- Speed. Lua hashes every byte of each string that it makes (1.2 ns), and a command costs 0.3 to 1.5 µs. So records go
-- into the answer as they are, numbers become text once, calls that are alike but for their events come as one group, which is read
-- once and written once, and the calls of a batch share what was read of their shard and one entry of the outbox. It stands in the
-- shard of the first of them: Redis keeps or loses all that a script wrote.
--
-- Accounts. A billing record with an account (docs/accounts-design.md) has a text where others have a number.
--
-- Limits. Where a key or its record has limits over windows, a lookup's ratePerSecond is no number. A new lookup has the limits as
-- their records have them: the caller makes of them what is sent along with each call (limits.ts).
--
-- script-protocol.ts says what each field means; a test compares its tables with this file.
--
-- KEYS  one per group: the record of the secret to verify. All other names share its hash tag and are made from it here.
-- ARGV  1 run id of this server
--       2 not after: Redis time in ms
--       3 "1" when the outbox is full
--       4.. per group what its calls have in common, packed: lookup (ten fields, empty without one), searchedList, listed, costMicros,
--           idempotencyHash, usageHash, question (callerTeamId, callerWorkspaceIds, wantedScopes), and where the lookup has
--           limits, these. To hold credits, costMicros is "@" and, between \31, micro-credits, for how many ms, onExpiry, the
--           hold's 26 characters, usage name. Then of each call the start of its event, from "{"; of a hold one of kind hold. One
--           with an idempotencyHash, or that holds, is a group of its own
-- Gives {"OK", now in ms, now in ticks,
--        then one per call, fields between \31: status, reason, usedMicros, sequence, ratePerSecond, arrivalTicks,
--          askedAtTicks, and after \30 what tellLimits gives; or "CLOSED" | "LATE" | "OUTBOX_FULL" | "CONFLICT" | "CANCELLED" (cancel.lua was asked to) | "SEARCH" (the caller must search the lookup's
--          list of addresses and ask again) | "AGAIN" (more fell due than one script does: ask again) |
--          "HOLDS_FULL" (the record has too many open holds) |
--          "ELSEWHERE" with the shard of an imported key as its reason (ask there) | "CORRUPT" with the error as its reason,
--        then five per new lookup: group (its place, from 0), lookup, keyRecord, billingRecord, scopes (a list, after the
--          workspace's defaults)}
local NOT_FOUND = 'INVALID\31NOT_FOUND'
local CANCELLED = 33 -- what cancel.lua keeps begins with it
local EVENT = 123 -- each begins with it
local MOST_HOLDS = 10000
local concat = table.concat

local runId, late, outboxFull, nowTicksText, timeOfEvent
-- What is to be written: calls that took something, and accounts. And by the names of Redis: the call or the account that changed it
-- last, which later calls go by, and counters of limits that were read.
local taken, accounts, latest, counters
-- The JSON of events in parts, how many these and how many events, and the tag of the shard that gets them.
local parts, length, events, eventsTag
-- New lookups, as they are answered.
local newLookups

-- GCRA: a key's one value is its theoretical arrival time, which each verification that passes moves one interval on, and which may lie
-- at most one second ahead of now. Gives interval, latest and arrival, in ticks, from the value (false without one). One more passes when
-- arrival + interval <= latest; then that sum is the new value, which is kept for 2 s.
local function rateLimitAt(arrivalText, perSecond)
  local interval = ceil(TICKS_PER_SECOND / perSecond)
  local latest = nowTicks + interval * perSecond
  -- A clock that was set back, or a limit that was lowered, leaves at most a full second to wait for.
  return interval, latest, min(max(tonumber(arrivalText or 0), nowTicks), latest)
end

-- The hold that a call asks for, as it sends it in the place of its cost.
local function readHoldAsked(text, keyId, epoch)
  local micros, forMs, onExpiry, id, usageName = string.match(text, '^@(%d+)\31(%d+)\31(%l+)\31([^\31]+)\31(.*)$')
  return {
    id = id, micros = tonumber(micros), endsAtMs = nowMs + tonumber(forMs), onExpiry = onExpiry, openedMs = nowText,
    epoch = epoch, keyId = keyId, usageName = usageName,
  }
end

-- Reads what a billing record has used, or its account, which it brings up to date where something is due or its settings are other ones.
local function readBalance(one, limitMicros, isNew)
  local billingKey, before, used = one.billingKey, latest[one.billingKey], nil
  local account = before and before.classes and before
  if before then one.usedText, used, one.sequence = before.usedText, before.used, before.sequence
  else
    one.usedText, used, one.sequence = readUsed(billingKey, 'n' .. one.epoch)
    if not one.usedText then error('a billing record is gone') end
  end
  one.used, one.limit = used, tonumber(limitMicros)
  if not (account or one.hold or not used or not one.limit) then return end

  -- What is not kept of it while the outbox is full must not stay in the counters of other calls.
  account = account or openAccount(one.usedText, billingKey, one.epoch, one.sequence, not outboxFull and counters)
  -- Plain settings have no version in a lookup.
  local isCurrent = account.settings == limitMicros and not (isNew and byte(limitMicros) ~= 64)
  if account.isUnfinished or not account.hasState and not (isCurrent and nowMs < account.untilMs) then
    account.isUnfinished = not bringUpToDate(account)
    tellMoment(account)
  end
  one.account, one.used, one.limit = account, account.used + account.held, account.limit
end

-- Reads limits over windows, and the rate limit.
local function readLimitsOf(one, packedCall, ratePerSecond)
  local perSecond = tonumber(ratePerSecond)
  if not perSecond then
    local tag = sub(one.rateKey, 1, 5)
    local names = { tag .. 'l:' .. sub(one.rateKey, 8), tag .. 'l:' .. sub(one.billingKey, 8) }
    one.limits = readLimits(packedCall, ratePerSecond, names, one.account and one.account.counters or counters)
    ratePerSecond = one.limits.ratePerSecond
    perSecond = tonumber(ratePerSecond)
  end
  one.ratePerSecond = ratePerSecond
  if not perSecond then return end
  local before = latest[one.rateKey]
  one.interval, one.latestArrival, one.arrival = rateLimitAt(before and before.arrivalText or call('GET', one.rateKey), perSecond)
end

-- All that the calls of a group go by; or false, and their answer.
local function read(group, packedCall, eventStart)
  local key = KEYS[group]
  local tag = sub(key, 1, 5)
  local shard = openShardOf(tag, runId, 'epoch', 'writes')
  if not shard then return false, 'CLOSED' end
  if late then return false, 'LATE' end

  local epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros,
    eventIds, searchedList, listed, costMicros, idempotencyHash, usageHash, questionAt = unpackFields('sssssssssssssss', packedCall)
  local shardWrites = shard[3] or '0'
  local isNew = epoch ~= shard[2] or writes ~= shardWrites or (holdsUntilMs ~= '0' and nowMs >= tonumber(holdsUntilMs))
  if isNew then
    local lookup, keyRecord, billingRecord, scopes = lookUp(tag, shard[2], shardWrites, key, packedCall, questionAt)
    if not lookup then return false, keyRecord and 'ELSEWHERE\31' .. keyRecord or NOT_FOUND end
    epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros, eventIds =
      unpack(lookup)
    local at = #newLookups
    newLookups[at + 1], newLookups[at + 2], newLookups[at + 3] = format('%d', group - 1), concat(lookup, '\0'), keyRecord
    newLookups[at + 4], newLookups[at + 5] = billingRecord, scopes
  end
  if addressList ~= '' and addressList ~= searchedList or isNew and find(ratePerSecond, '@', 1, true) then return false, 'SEARCH' end

  local one = {
    epoch = epoch, rateKey = rateKey, billingKey = billingKey, eventIds = eventIds, eventStart = eventStart, usedText = '',
    sequenceText = '', costMicros = tonumber(costMicros), ratePerSecond = '',
  }
  if not one.costMicros then
    one.hold = readHoldAsked(costMicros, sub(rateKey, 8), epoch)
    one.costMicros = one.hold.micros
  end
  if limitMicros ~= '' then readBalance(one, limitMicros, isNew) end
  if ratePerSecond ~= '' then readLimitsOf(one, packedCall, ratePerSecond) end
  if addressList ~= '' and listed == '' then one.refused = 'INVALID\31IP_NOT_ALLOWED'
  elseif knownRefusal ~= '' then one.refused = knownRefusal
  elseif idempotencyHash ~= '' then
    one.onceKey, one.usageHash = tag .. 'i:' .. sub(rateKey, 8) .. ':' .. idempotencyHash, usageHash
  end
  return one
end

-- What is used, as an answer tells it.
local function usedTextFor(one) return one.account and amountsOf(one.account) or one.usedText end

-- What the first call of an Idempotency-Key was answered; nil of the first.
local function answerAgain(one)
  local onceKey, hold = one.onceKey, one.hold
  local pending = latest[onceKey]
  local onceRecord = pending and pending.onceRecord or call('GET', onceKey)
  if not onceRecord then return nil end
  if byte(onceRecord) == CANCELLED then return 'CANCELLED' end
  local usageThen, rateLimitThen, holdThenAt = unpackFields('ss', onceRecord)
  if usageThen ~= one.usageHash then return 'CONFLICT' end
  -- Set the same expiry again only to make a write: WAIT then also covers the first call's debit. From Redis 7.2 on,
  -- WAIT counts a connection's own writes only.
  if not pending then call('PEXPIREAT', onceKey, call('PEXPIRETIME', onceKey)) end
  local holdThen, limitsAt = '', holdThenAt
  if hold then holdThen, limitsAt = unpackFields('s', onceRecord, holdThenAt) end
  return 'VALID\31\31' .. usedTextFor(one) .. (one.account and holdThen or '') .. '\31\31' .. rateLimitThen .. sub(onceRecord, limitsAt)
end

-- Why a call is refused, status and reason; nil where it is not. And which limit refuses it.
local function judge(one)
  local limits, costMicros = one.limits, one.costMicros
  if limits then judgeLimits(limits, costMicros) end
  if one.refused then return one.refused end
  if one.arrival and one.arrival + one.interval > one.latestArrival then return 'RATE_LIMITED\31RATE_LIMIT' end
  if limits and limits.ofRequests then return 'RATE_LIMITED\31RATE_LIMIT', limits.ofRequests end
  if costMicros ~= 0 and one.billingKey ~= '' then
    if not one.limit then return 'USAGE_LIMITED\31NO_BILLING_RECORD' end
    if costMicros > min(one.limit, MAX_MICROS) - one.used then return 'USAGE_LIMITED\31CREDITS_USED_UP' end
  end
  if limits and limits.ofCredits then return 'USAGE_LIMITED\31LIMIT_REACHED', limits.ofCredits end
end

-- Adds the lines of an account to the events, and the account to what is written.
local function keepAccount(account)
  for _, line in ipairs(account.lines) do
    parts[length + 1], parts[length + 2] = line, '\n'
    length, events = length + 2, events + 1
  end
  eventsTag, account.lines = eventsTag or sub(account.billingKey, 1, 5), {}
  if latest[account.billingKey] == account then return end
  latest[account.billingKey], accounts[#accounts + 1] = account, account
end

-- Takes the credits of an account, or holds them, with the event that says so; gives what the caller is told of the hold.
local function takeFromAccount(one, account)
  local hold, limits = one.hold, one.limits
  local holdThen, more, crossed, cost = '', '', '', one.costMicros
  if hold then
    hold.limits = limits and noteLimits(limits) or ''
    hold.owned = reserve(account, cost)
    putHold(account, hold)
    holdThen = format(' %s %s %d %s', hold.id, hold.openedMs, hold.endsAtMs, hold.epoch)
    more, cost = format(',"o":"%s","m":%d,"f":', hold.id, cost) .. cjson.encode(hold.text), 0
  else
    draw(account, cost)
  end
  account.sequence = account.sequence + 1
  local byLimits = limits and limits.alerts ~= '' and crossedByLimits(limits)
  if byLimits or account.used >= account.alertAt then
    if not account.hasState then bringUpToDate(account) end
    if byLimits then noteCrossed(account, byLimits) end
    watchAlerts(account)
    crossed = crossedPart(account)
    settleLimits(account)
  end
  local sequenceText = format('%d', account.sequence)
  account.lines[#account.lines + 1] = one.eventStart .. timeOfEvent .. one.eventIds .. ',"u":' .. format('%d', account.used) .. ',"s":' ..
    sequenceText .. ',"e":' .. account.epoch .. heldPart(account) .. more .. changesPart(account, cost) .. crossed .. '}'
  keepAccount(account)
  one.sequenceText = sequenceText
  return holdThen
end

-- Takes the credits of a record that has none but a number, and makes the event; also of a key that is not metered.
local function takePlain(one)
  local balance = ',"u":0,"s":0,"e":0}'
  if one.limit then
    one.used, one.sequence = one.used + one.costMicros, one.sequence + 1
    one.usedText, one.sequenceText = format('%d', one.used), format('%d', one.sequence)
    latest[one.billingKey] = one
    balance = ',"u":' .. one.usedText .. ',"s":' .. one.sequenceText .. ',"e":' .. one.epoch .. '}'
  elseif one.hold then
    -- Nothing is held for a key that is not metered: its event is a verification, of all that its limits count.
    one.eventStart = '{' .. string.gsub(sub(one.eventStart, 13), '"c":0', '"c":' .. format('%d', one.costMicros), 1)
  end
  if outboxFull then return end
  parts[length + 1], parts[length + 2], parts[length + 3], parts[length + 4], parts[length + 5] =
    one.eventStart, timeOfEvent, one.eventIds, balance, '\n'
  eventsTag, length, events = eventsTag or sub(one.rateKey, 1, 5), length + 5, events + 1
end

-- What is kept of a call for its repetitions. Behind the rate limit stands what cancel.lua goes by.
local function keepAnswer(one, rateLimit, noted, holdThen)
  one.onceRecord = one.usageHash .. '\0' .. rateLimit .. (one.arrival and '\31' .. nowTicksText or '\31\31') .. '\31' ..
    nowText .. '\31' .. one.epoch .. '\31' .. one.sequenceText .. '\31' .. one.eventStart .. '\31' .. noted .. '\0' ..
    (one.hold and holdThen .. '\0' or '') .. (one.limits and tellLimits(one.limits, '', nowTicksText) or '')
  latest[one.onceKey] = one
end

-- Writes what a call took, where no later one has taken more.
local function writeCall(one)
  local billingKey, rateKey, onceKey = one.billingKey, one.rateKey, one.onceKey
  if latest[billingKey] == one then call('HSET', billingKey, 'u', one.usedText, 'n' .. one.epoch, one.sequenceText) end
  if latest[rateKey] == one then call('PSETEX', rateKey, '2000', one.arrivalText) end
  for p = 1, one.limits and #one.limits or 0 do writeCounters(one.limits[p]) end
  if onceKey and latest[onceKey] == one then call('SETEX', onceKey, '60', one.onceRecord) end
end

local function take(one)
  local account, hold, limits, rateLimit = one.account, one.hold, one.limits, one.ratePerSecond
  local holdThen, noted, told = '', '', ''
  if account then holdThen = takeFromAccount(one, account) else takePlain(one) end
  if one.arrival then
    one.arrival = one.arrival + one.interval
    one.arrivalText = format('%d', one.arrival)
    rateLimit, latest[one.rateKey] = rateLimit .. '\31' .. one.arrivalText, one
  end
  if limits then
    if one.onceKey then noted = noteTaken(limits, hold and account) end
    takeLimits(limits)
    told = tellLimits(limits, '', '')
  end
  -- While the outbox is full, what is kept must not grow; a repetition takes no credits either.
  if one.onceKey and not outboxFull then keepAnswer(one, rateLimit, noted, holdThen) end
  if taken[#taken] ~= one then taken[#taken + 1] = one end
  return 'VALID\31\31' .. usedTextFor(one) .. holdThen .. '\31' .. one.sequenceText .. '\31' .. rateLimit .. told
end

-- Judges a call; refuses it, or takes what it asks for.
local function judgeAndTake(one)
  local refusal, limitedBy = judge(one)
  if refusal then
    local rateLimit = one.arrival and one.ratePerSecond .. '\31' .. format('%d', one.arrival) or one.ratePerSecond
    return refusal .. '\31' .. usedTextFor(one) .. '\31\31' .. rateLimit .. (one.limits and tellLimits(one.limits, limitedBy or '', '') or '')
  end
  if outboxFull and one.limit then return 'OUTBOX_FULL' end
  if one.hold and one.account then
    nameHolds(one.account)
    if openHolds(one.account) >= MOST_HOLDS then return 'HOLDS_FULL' end
  end
  return take(one)
end

-- Decides the first call of a group; gives its answer, and what others of it go by.
local function decide(group, packedCall, eventStart)
  local one, answer = read(group, packedCall, eventStart)
  if not one then return answer end
  local account = one.account
  if account and account.isUnfinished then
    if outboxFull then return 'OUTBOX_FULL' end
    keepAccount(account)
    return 'AGAIN'
  end
  -- What fell due is done, whatever the call is answered: later calls go by counters that its holds have corrected.
  if account and account.hasState and not outboxFull then keepAccount(account) end
  return one.onceKey and answerAgain(one) or judgeAndTake(one), not one.onceKey and not one.hold and one
end

-- Decides the calls of a group, each by what those before it left; gives where in ARGV the next group begins.
local function decideGroup(answers, group, at)
  local packedCall = ARGV[at]
  at = at + 1
  local answer, one = decide(group, packedCall, ARGV[at])
  -- As many arguments before it are no event as there are groups.
  answers[at - group] = answer
  at = at + 1
  local eventStart = ARGV[at]
  while eventStart and byte(eventStart) == EVENT do
    if one then
      local account = one.account
      if account then one.used, one.limit = account.used + account.held, account.limit end
      one.eventStart = eventStart
      answer = judgeAndTake(one)
    else
      answer, one = decide(group, packedCall, eventStart)
    end
    answers[at - group] = answer
    at = at + 1
    eventStart = ARGV[at]
  end
  return at
end

-- The events first. With them all has happened, and the books have it: what can't be written then, since something else holds its name,
-- keeps nothing else from being written.
local function write()
  if events > 0 then appendEntry(eventsTag .. 'outbox', concat(parts, '', 1, length - 1), events) end
  for i = 1, #taken do pcall(writeCall, taken[i]) end
  for i = 1, #accounts do pcall(writeAccount, accounts[i]) end
end

-- Decides groups, the first of which begins there, and writes what their calls took. Gives what was raised where something is wrong
-- with one of them, and then nothing was written; and where the next group begins.
local function run(answers, first, last, at)
  taken, accounts, latest, counters, parts, length, events, eventsTag = {}, {}, {}, {}, {}, 0, 0, nil
  for group = first, last do
    local decided, next = pcall(decideGroup, answers, group, at)
    if not decided then return whyOf(next), at end
    at = next
  end
  local written, why = pcall(write)
  return not written and whyOf(why) or nil, at
end

return script(function()
  runId, late, outboxFull = ARGV[1], nowMs > tonumber(ARGV[2]), ARGV[3] == '1'
  nowTicksText, timeOfEvent, newLookups = format('%d', nowTicks), ',"t":' .. nowText, {}
  local groups, answers = #KEYS, { 'OK', nowText, nowTicksText }
  local failed, last = run(answers, 1, groups, 4)
  if failed then newLookups, last = {}, 4 end
  for group = 1, failed and groups or 0 do
    -- One corrupt record must not spoil the calls of others: each group is decided alone.
    local first, why = last, failed
    if groups > 1 then why, last = run(answers, group, group, first) end
    if why then
      last = first + 1
      repeat
        answers[last - group] = 'CORRUPT\31' .. why
        last = last + 1
      until not ARGV[last] or byte(ARGV[last]) ~= EVENT
    end
  end
  for i = 1, #newLookups do answers[last - groups - 1 + i] = newLookups[i] end
  return answers
end)
