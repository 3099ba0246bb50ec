-- What the calls of a batch take is written once, when all of them are decided.
--
-- Needs   names time
-- Defines batch                false of a call that is alone
--         noteEvent(tag, eventStart, eventIds, balance)   notes the event of a call
--         noteLines(tag, lines)   notes lines of an account
--         noteBalance(billingKey, usedText, sequenceField, sequenceText)   notes the balance after it
--         writeBatch(accounts, limits)   writes what was noted, the events first, by the functions of verify.lua where they were
--                              made. Gives whether Redis took the first write; it takes all others then
--         timeOfEvent          a part of the event's JSON
--         concat               table.concat
local concat = table.concat
local timeOfEvent = ',"t":' .. nowText
-- What they have taken and is not written yet: how many events, the tag of the shard whose outbox gets them, their JSON in
-- parts, balances (four each: billing key, used, field and number of its sequence), and by the names of their keys the places
-- of those balances, arrival times, counters of limits, what Idempotency-Keys keep, and accounts. A call that is alone has none of it, and writes at once.
local batch = #KEYS > 1 and {}
if batch then
  batch.events, batch.parts, batch.length = 0, {}, 0
  batch.balances, batch.balanceAt, batch.arrivals, batch.onceRecords, batch.accounts, batch.counters = {}, {}, {}, {}, {}, {}
end

local function noteEvent(tag, eventStart, eventIds, balance)
  local parts, at = batch.parts, batch.length
  parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4], parts[at + 5] = eventStart, timeOfEvent, eventIds, balance, '\n'
  batch.length, batch.events, batch.tag = at + 5, batch.events + 1, batch.tag or tag
end

local function noteLines(tag, lines)
  local parts, at = batch.parts, batch.length
  parts[at + 1], parts[at + 2] = concat(lines, '\n'), '\n'
  batch.length, batch.events, batch.tag = at + 2, batch.events + #lines, batch.tag or tag
end

local function noteBalance(billingKey, usedText, sequenceField, sequenceText)
  local balances, place = batch.balances, batch.balanceAt[billingKey]
  if not place then
    place = #balances + 1
    batch.balanceAt[billingKey], balances[place] = place, billingKey
  end
  balances[place + 1], balances[place + 2], balances[place + 3] = usedText, sequenceField, sequenceText
end

local function writeBatch(accounts, limits)
  local tag, balances, refused = batch.tag, batch.balances
  if tag then
    -- Without the last line end.
    refused = redis.pcall('XADD', tag .. 'outbox', '*', 'e', concat(batch.parts, '', 1, batch.length - 1)).err
  end
  for rateKey, arrivalText in pairs(batch.arrivals) do
    if refused then return false end
    refused = redis.pcall('PSETEX', rateKey, '2000', arrivalText).err
  end
  for _, counters in pairs(batch.counters) do
    if refused then return false end
    refused = counters.changed and (limits or accounts.makeMoments()).write(counters, redis.pcall).err
  end
  if refused then return false end
  for i = 1, #balances, 4 do call('HSET', balances[i], 'u', balances[i + 1], balances[i + 2], balances[i + 3]) end
  -- After them: a record that was plain for the first calls may hold.
  for _, account in pairs(batch.accounts) do
    if not pcall(accounts.writeNow, account) then return false end
  end
  for onceKey, onceRecord in pairs(batch.onceRecords) do call('SETEX', onceKey, '60', onceRecord) end
  -- The count only steers a limit: whatever is wrong with it, the debits have their events.
  if batch.events > 1 then redis.pcall('INCRBY', tag .. 'more', format('%d', batch.events - 1)) end
  return true
end
