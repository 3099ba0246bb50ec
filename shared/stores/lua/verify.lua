-- uses: names time fence rate-limit used records lookup batch
-- Decides verifications, each on its own. A VALID one takes its rate token and its credits and appends its usage event,
-- all or nothing: all of a batch are read, checked and decided before the first write, which appends the events of all of
-- them as one entry of the outbox. Should Redis refuse that (its memory is full), nothing was taken, and each is decided again
-- alone. A later one goes by what those before it took.
--
-- Lookups. What the records of a key, its workspace and its billing record say to one question (whose token asks, for
-- which scopes) seldom changes. The script looks it up once and answers it as a "lookup"; the caller keeps the lookup and
-- sends it along the next time. It holds until a record of the shard is written: apply.lua counts those writes, and a
-- change is in force for the very next call. Rate limits and used credits change with each call and are always read.
--
-- Speed. Lua hashes every byte of each string that it makes (1.2 ns), and a command costs 0.3 to 1.5 µs. So records go
-- into the answer as they are, numbers become text once, and the calls of a batch share what was read of their shard and one
-- entry of the outbox. It stands in the shard of the first of them: Redis keeps or loses all that a script wrote.
--
-- Accounts. A billing record with an account (docs/accounts-design.md) has a text where others have a number. The plain path
-- does not ask for it: it fails to convert that text, and only then are the functions of accounts made.
--
-- Limits. Where a key or its record has limits over windows, a lookup's ratePerSecond is no number, and only then are the functions
-- of limits made. A new lookup has the limits as their records have them: the caller makes of them what is sent along with
-- each call (limits.ts).
--
-- script-protocol.ts says what each field means; a test compares its tables with this file.
--
-- KEYS  one per call: the record of the secret to verify. All other names share its hash tag and are made from it here.
-- ARGV  1 run id of this server
--       2 not after: Redis time in ms
--       3 "1" when the outbox is full
--       4.. one per call, packed: lookup (ten fields, empty without one), searchedList, listed, costMicros,
--           idempotencyHash, usageHash, eventStart, question (callerTeamId, callerWorkspaceIds, wantedScopes), and where the
--           lookup has limits, these. To hold credits, costMicros is "@" and, between \31, micro-credits, for how many ms,
--           onExpiry, the hold's 26 characters, usage name; and the event is one of kind hold
-- Gives {"OK", now in ms, now in ticks,
--        then one per call, fields between \31: status, reason, usedMicros, sequence, ratePerSecond, arrivalTicks,
--          askedAtTicks, and after \30 what tellLimits gives; or "CLOSED" | "LATE" | "OUTBOX_FULL" | "CONFLICT" | "CANCELLED" (cancel.lua was asked to) | "SEARCH" (the caller must search the lookup's
--          list of addresses and ask again) | "AGAIN" (more fell due than one script does: ask again) |
--          "HOLDS_FULL" (the record has too many open holds) |
--          "ELSEWHERE" with the shard of an imported key as its reason (ask there) | "CORRUPT" with the error as its reason,
--        then five per new lookup: call (its place, from 0), lookup, keyRecord, billingRecord, scopes (a list, after the
--          workspace's defaults)}
local MAX_MICROS = 9e15 -- below 2^53: sums stay exact
local NOT_FOUND = 'INVALID\31NOT_FOUND'
local CANCELLED = 33 -- what cancel.lua keeps begins with it

local runId, late, outboxFull = ARGV[1], nowMs > tonumber(ARGV[2]), ARGV[3] == '1'
local nowTicksText = format('%d', nowTicks)
-- {owner, epoch, writes} by hash tag, which the calls of a batch share.
local shards = {}

-- The functions of accounts, made when the first account comes, and those of holds and moments when the first one holds or something is
-- due: a script pays for each function that it makes.
local function makeAccounts()
  -- uses: account

  local function makeMoments()
    -- uses: account-state alerts-mark limits limits-of-holds holds moments
    return {
      bringUpToDate = bringUpToDate, tellMoment = tellMoment, settleLimits = settleLimits, writeAccount = writeAccount,
      watchAlerts = watchAlerts, crossedPart = crossedPart, nameHolds = nameHolds, openHolds = openHolds, putHold = putHold,
      packHold = packHold, noteLimits = noteLimits, write = writeCounters,
    }
  end
  -- uses: account-of-call
  return {
    open = open, readAsked = readAsked, mayHold = mayHold, openHold = openHold, addEvent = addEvent, write = write, writeNow = writeNow,
    amountsOf = amountsOf, draw = draw, makeMoments = makeMoments,
  }
end
local accounts

-- The functions of limits, made when the first key or record with limits over windows comes.
local function makeLimits()
  -- uses: limits
  return {
    read = readLimits, judge = judgeLimits, crossed = crossedByLimits, note = noteTaken, take = takeLimits, tell = tellLimits,
    write = writeCounters,
  }
end
local limitFunctions

-- Decides one call. Gives its answer and, where it had to look up, the lookup and what lookUp gives with it.
local function judge(key, packedCall)
  local tag = sub(key, 1, 5)
  local shard = shards[tag]
  if shard == nil then
    shard = openShard(tag .. 'meta', runId, 'epoch', 'writes')
    shards[tag] = shard
  end
  if not shard then return 'CLOSED' end
  if late then return 'LATE' end

  local epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros,
    eventIds, searchedList, listed, costMicros, idempotencyHash, usageHash, eventStart, questionAt =
    unpackFields('ssssssssssssssss', packedCall)
  local shardEpoch, shardWrites = shard[2], shard[3] or '0'
  local lookup, keyRecord, billingRecord, scopes
  if epoch ~= shardEpoch or writes ~= shardWrites or (holdsUntilMs ~= '0' and nowMs >= tonumber(holdsUntilMs)) then
    lookup, keyRecord, billingRecord, scopes = lookUp(tag, shardEpoch, shardWrites, key, packedCall, questionAt)
    if not lookup then return keyRecord and 'ELSEWHERE\31' .. keyRecord or NOT_FOUND end
    epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros, eventIds =
      unpack(lookup)
    lookup = concat(lookup, '\0')
  end
  if addressList ~= '' and addressList ~= searchedList or lookup and find(ratePerSecond, '@', 1, true) then
    return 'SEARCH', lookup, keyRecord, billingRecord, scopes
  end

  local hold
  local costText = costMicros
  costMicros = tonumber(costText)
  if not costMicros then
    accounts = accounts or makeAccounts()
    hold = accounts.readAsked(costText, sub(rateKey, 8), epoch)
    costMicros = hold.micros
  end
  local sequenceField, metered, usedText, used, sequence = 'n' .. epoch, limitMicros ~= '', ''
  local limit, account
  if metered then
    limit = tonumber(limitMicros)
    local place = batch and batch.balanceAt[billingKey]
    if place then
      usedText = batch.balances[place + 1]
      used, sequence = tonumber(usedText), tonumber(batch.balances[place + 3])
    else
      usedText, used, sequence = readUsed(billingKey, sequenceField)
    end
    if hold or not (used and limit) or batch and batch.accounts[billingKey] then
      accounts = accounts or makeAccounts()
      account = accounts.open(billingKey, usedText, sequence, { limitMicros = limitMicros, isNew = lookup ~= nil, epoch = epoch })
      if account.isUnfinished then
        if outboxFull then return 'OUTBOX_FULL' end
        accounts.write(account)
        return 'AGAIN', lookup, keyRecord, billingRecord, scopes
      end
      usedText, used, limit = accounts.amountsOf(account), account.used + account.held, account.limit
    end
  end
  local limited, interval, latest, arrival = ratePerSecond ~= ''
  local perSecond, limits, toldLimits = limited and tonumber(ratePerSecond), nil, ''
  if limited and not perSecond then
    limitFunctions = limitFunctions or makeLimits()
    local names = { tag .. 'l:' .. sub(rateKey, 8), tag .. 'l:' .. sub(billingKey, 8) }
    limits = limitFunctions.read(packedCall, ratePerSecond, names, batch and batch.counters, account and account.counters)
    ratePerSecond = limits.ratePerSecond
    limited, perSecond = ratePerSecond ~= '', tonumber(ratePerSecond)
  end
  if limited then
    local arrivalText = batch and batch.arrivals[rateKey] or call('GET', rateKey)
    interval, latest, arrival = rateLimitAt(arrivalText, perSecond)
  end

  local refused = knownRefusal ~= '' and knownRefusal
  if addressList ~= '' and listed == '' then refused = 'INVALID\31IP_NOT_ALLOWED' end

  local onceKey = not refused and idempotencyHash ~= '' and tag .. 'i:' .. sub(rateKey, 8) .. ':' .. idempotencyHash
  local pendingOnce = onceKey and batch and batch.onceRecords[onceKey]
  local onceRecord = onceKey and (pendingOnce or call('GET', onceKey))
  if onceRecord then
    if byte(onceRecord) == CANCELLED then return 'CANCELLED' end
    local usageThen, rateLimitThen, holdThenAt = unpackFields('ss', onceRecord)
    if usageThen ~= usageHash then return 'CONFLICT' end
    -- Set the same expiry again only to make a write: WAIT then also covers the first call's debit. From Redis 7.2 on,
    -- WAIT counts a connection's own writes only.
    if not pendingOnce then call('PEXPIREAT', onceKey, call('PEXPIRETIME', onceKey)) end
    local holdThen, limitsAt = '', holdThenAt
    if hold then holdThen, limitsAt = unpackFields('s', onceRecord, holdThenAt) end
    return 'VALID\31\31' .. usedText .. (account and holdThen or '') .. '\31\31' .. rateLimitThen .. sub(onceRecord, limitsAt), lookup,
      keyRecord, billingRecord, scopes
  end

  if limits then limitFunctions.judge(limits, costMicros) end
  local limitedBy
  if not refused then
    if limited and arrival + interval > latest then refused = 'RATE_LIMITED\31RATE_LIMIT'
    elseif limits and limits.ofRequests then refused, limitedBy = 'RATE_LIMITED\31RATE_LIMIT', limits.ofRequests
    elseif costMicros == 0 or billingKey == '' then -- nothing to debit
    elseif not metered then refused = 'USAGE_LIMITED\31NO_BILLING_RECORD'
    elseif costMicros > min(limit, MAX_MICROS) - used then
      refused = 'USAGE_LIMITED\31CREDITS_USED_UP'
    end
    if limits and limits.ofCredits and not refused then
      refused, limitedBy = 'USAGE_LIMITED\31LIMIT_REACHED', limits.ofCredits
    end
  end
  local rateLimit = ratePerSecond
  if refused then
    -- Redis may have no memory for it: then the next call does what is due.
    if account and account.hasState and not outboxFull then pcall(accounts.write, account) end
    if limited then rateLimit = ratePerSecond .. '\31' .. format('%d', arrival) end
    if limits then toldLimits = limitFunctions.tell(limits, limitedBy or '', '') end
    return refused .. '\31' .. usedText .. '\31\31' .. rateLimit .. toldLimits, lookup, keyRecord, billingRecord, scopes
  end
  if outboxFull and metered then return 'OUTBOX_FULL' end
  if hold and account and not accounts.mayHold(account) then return 'HOLDS_FULL' end

  local balance, sequenceText, arrivalText, stored = ',"u":0,"s":0,"e":0}', ''
  local holdThen, more = '', ''
  if account then
    if hold then holdThen, more = accounts.openHold(account, hold, limits) else accounts.draw(account, costMicros) end
    local byLimits = limits and limits.alerts ~= '' and limitFunctions.crossed(limits)
    local event = { start = eventStart .. timeOfEvent .. eventIds, more = more, cost = hold and 0 or costMicros }
    accounts.addEvent(account, event, byLimits)
    usedText, sequenceText = accounts.amountsOf(account), format('%d', account.sequence)
  elseif metered then
    usedText, sequenceText = format('%d', used + costMicros), format('%d', sequence + 1)
    balance, stored = ',"u":' .. usedText .. ',"s":' .. sequenceText .. ',"e":' .. epoch .. '}', usedText
  elseif hold then
    -- Nothing is held for a key that is not metered: its event is a verification, of all that its limits count.
    eventStart = '{' .. string.gsub(sub(eventStart, 13), '"c":0', '"c":' .. format('%d', costMicros), 1)
  end
  if limited then
    arrivalText = format('%d', arrival + interval)
    rateLimit = ratePerSecond .. '\31' .. arrivalText
  end
  local taken = ''
  if limits then
    if onceKey then taken = limitFunctions.note(limits, hold and account) end
    limitFunctions.take(limits)
    toldLimits = limitFunctions.tell(limits, '', '')
  end
  -- While the outbox is full, what is kept must not grow; a repetition takes no credits either. Behind the rate limit stands what
  -- cancel.lua goes by.
  onceRecord = onceKey and not outboxFull and
    usageHash .. '\0' .. rateLimit .. (limited and '\31' .. nowTicksText or '\31\31') .. '\31' .. nowText .. '\31' .. epoch .. '\31' ..
    sequenceText .. '\31' .. eventStart .. '\31' .. taken .. '\0' .. (hold and holdThen .. '\0' or '') ..
    (limits and limitFunctions.tell(limits, '', nowTicksText) or '')

  if batch then
    if account then accounts.write(account)
    elseif not outboxFull then noteEvent(tag, eventStart, eventIds, balance) end
    if stored then noteBalance(billingKey, stored, sequenceField, sequenceText) end
    if limited then batch.arrivals[rateKey] = arrivalText end
    if onceRecord then batch.onceRecords[onceKey] = onceRecord end
  else
    -- Only writes, the event first: should Redis refuse it, nothing was taken.
    if account then accounts.write(account)
    elseif not outboxFull then call('XADD', tag .. 'outbox', '*', 'e', eventStart .. timeOfEvent .. eventIds .. balance) end
    if stored then call('HSET', billingKey, 'u', stored, sequenceField, sequenceText) end
    if limited then call('PSETEX', rateKey, '2000', arrivalText) end
    for _, counters in ipairs(limits or {}) do
      if counters.changed then limitFunctions.write(counters, call) end
    end
    if onceRecord then call('SETEX', onceKey, '60', onceRecord) end
  end
  return 'VALID\31\31' .. usedText .. holdThen .. '\31' .. sequenceText .. '\31' .. rateLimit .. toldLimits, lookup, keyRecord,
    billingRecord, scopes
end

local calls = #KEYS
local answers, at, done
repeat
  answers, at = { 'OK', nowText, nowTicksText }, calls + 4
  for i = 1, calls do
    -- pcall: one corrupt record must not spoil the other calls.
    local decided, answer, lookup, keyRecord, billingRecord, scopes = pcall(judge, KEYS[i], ARGV[i + 3])
    if not decided then
      answer = type(answer) == 'table' and answer.err or tostring(answer)
      -- What it has done to an account that the batch shares is not to be gone by.
      if batch then batch.isSpoilt = true end
      -- At its memory limit Redis refuses the first write of a call, so nothing was taken.
      answer = find(answer, '^OOM') and 'OUTBOX_FULL' or 'CORRUPT\31' .. answer
    end
    answers[i + 3] = answer
    if lookup then
      answers[at], answers[at + 1], answers[at + 2] = format('%d', i - 1), lookup, keyRecord
      answers[at + 3], answers[at + 4] = billingRecord, scopes
      at = at + 5
    end
  end
  done = not batch or not batch.isSpoilt and writeBatch(accounts, limitFunctions)
  batch = nil
until done
return answers
