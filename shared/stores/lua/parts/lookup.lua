-- What the records of a key, its workspace and its billing record say to one question.
--
-- Defines lookUp(tag, epoch, writes, key, packedCall, questionAt)  gives the lookup's fields (script-protocol.ts), the key's record, the
--                                  billing record's settings and the scopes; nil where the caller has no such key, and after it the
--                                  shard where it is, if this one points there
local lookUp
do
  local MARK_LENGTH = 16 -- of a scope (scope-mark.ts)
  local LONGEST_CUSTOMER = 1600 -- bytes: more than 256 characters take as JSON
  local band = bit.band
  local fieldsOf = remember(cjson.decode)

  -- Whether the key was granted every wanted scope with all wanted flags. Each wanted scope is a mark and a flag character.
  -- workspaceRecords are the workspace's defaults and then its scopes that the key has, each ending in its mark; scopeFlags
  -- has one flag character for each of those.
  local function granted(wantedScopes, workspaceRecords, scopeFlags)
    local masks = {}
    for i = 2, #workspaceRecords do
      masks[sub(workspaceRecords[i], -1 - MARK_LENGTH, -2)] = byte(scopeFlags, i - 1)
    end
    for at = 1, #wantedScopes, MARK_LENGTH + 1 do
      local mask, flags = masks[sub(wantedScopes, at, at + MARK_LENGTH - 1)] or 0, byte(wantedScopes, at + MARK_LENGTH)
      if mask ~= flags and band(mask, flags) ~= flags then return false end
    end
    return true
  end

  -- Raises an error where one of these scopes is missing, or an older release wrote it, without its mark.
  local function requireMarks(workspaceRecords, fields)
    for i = 2, fields do
      local record = workspaceRecords[i]
      if not find(record, '\0#', 1, true) and not find(record, '\0-\0', 1, true) then error('a scope has no mark') end
    end
  end

  -- Parts text before an "@" from the limits behind it; nil without one.
  local function partLimits(text)
    local at = find(text, '@', 1, true)
    if at then return sub(text, 1, at - 1), sub(text, at + 1) end
    return text
  end

  function lookUp(tag, epoch, writes, key, packedCall, questionAt)
    local callerTeamId, callerWorkspaceIds, wantedScopes = unpackFields('sss', packedCall, questionAt)
    local keyRecord = call('GET', key)
    local state, teamId, workspaceId, keyId, expiresAtMs, validUntilMs, ratePerSecond, addressList, meter, workspaceFields,
      scopeFlags, answerPartAt = unpackKeyRecord(keyRecord)
    if not state or teamId ~= callerTeamId then return nil end
    if state == '>' then return nil, workspaceId end
    if validUntilMs ~= '0' and nowMs >= tonumber(validUntilMs) then return nil end
    if callerWorkspaceIds ~= '' and not find(callerWorkspaceIds, ' ' .. workspaceId .. ' ', 1, true) then return nil end

    -- The workspace's defaults, and its scopes that the key was granted.
    local fields = fieldsOf(workspaceFields)
    local workspaceRecords = call('HMGET', tag .. 'w:' .. workspaceId, unpack(fields))
    local workspaceRecord = workspaceRecords[1]
    for i = 2, #fields do
      if not workspaceRecords[i] then
        -- A scope that was deleted leaves the keys first, but for deleted ones.
        if state ~= 'D' then error('a scope of a workspace is gone') end
        workspaceRecords[i] = '0\0-\0'
      end
    end
    -- The tombstone of a deleted workspace, which has no keys.
    if find(workspaceRecord, '\0-\0', 1, true) then return nil end
    local version, defaultRatePerSecond, defaultAddressList, alertsAt = unpackFields('sss', workspaceRecord)
    local defaultLimits, limits, limitsOfRecord
    ratePerSecond, limits = partLimits(ratePerSecond)
    defaultRatePerSecond, defaultLimits = partLimits(defaultRatePerSecond)
    if ratePerSecond == '' then ratePerSecond = defaultRatePerSecond end
    limits = limits and 'k' .. limits or 'w' .. (defaultLimits or '')
    if addressList == '' then addressList = defaultAddressList end

    local billingKey, billingRecord, billingId, limitMicros = '', '', '', ''
    if meter ~= '' then
      billingKey = tag .. 'b:' .. workspaceId .. ':' .. meter
      billingRecord = call('HGET', billingKey, 's') or ''
      if billingRecord ~= '' then
        version, billingId, limitMicros = unpackFields('sss', billingRecord)
        if not tonumber(limitMicros) then
          limitMicros, limitsOfRecord = partLimits(limitMicros)
          -- The record has classes of credits: the lookup says which settings.
          if limitsOfRecord and limitMicros == '' then limitMicros = '@' .. version
          elseif not tonumber(limitMicros) then error('the limit of a billing record is no number') end
        end
        if alertsAt <= #workspaceRecord then
          -- The workspace has default alerts: with them the record has an account.
          local alertsMark = unpackFields('s', workspaceRecord, alertsAt)
          limitMicros = '@' .. version .. alertsMark
        end
      end
    end

    -- Deleted, disabled and expired are decided before the list of addresses. A lookup ends when its key does. An EXPIRED is never
    -- kept: if the clock is set back, the key is valid again.
    local knownRefusal, holdsUntilMs = '', validUntilMs
    if state == 'D' then knownRefusal, addressList = 'DELETED\31DELETED', '*'
    elseif state == 'X' then knownRefusal, addressList = 'DISABLED\31DISABLED', '*'
    elseif expiresAtMs ~= '0' and nowMs >= tonumber(expiresAtMs) then
      knownRefusal, addressList, holdsUntilMs = 'EXPIRED\31EXPIRED', '*', nowText
    else
      if wantedScopes ~= '' and not granted(wantedScopes, workspaceRecords, scopeFlags) then
        requireMarks(workspaceRecords, #fields)
        knownRefusal = 'INVALID_SCOPES\31SCOPE_MISSING'
      end
      if expiresAtMs ~= '0' and (holdsUntilMs == '0' or tonumber(expiresAtMs) < tonumber(holdsUntilMs)) then
        holdsUntilMs = expiresAtMs
      end
    end
    if addressList == '*' then addressList = '' end
    if knownRefusal == '' and (limits ~= 'k' and limits ~= 'w' or (limitsOfRecord or '') ~= '') then
      ratePerSecond = ratePerSecond .. '@' .. limits .. '\29' .. (limitsOfRecord or '')
    end
    -- The customer is cut from the key's ready-made answer, with which its record ends.
    local customerPart, from, at = '', find(keyRecord, '^"apiKeyId":"[^"]*","customerId":"', answerPartAt)
    if from then
      local text = sub(keyRecord, at, at + LONGEST_CUSTOMER)
      -- It ends at the first quote that no backslash escapes.
      local plain = find(text, '\\', 1, true) and string.gsub(text, '\\\\', '__') or text
      customerPart = ',"p":' .. sub(text, 1, find(plain, '[^\\]"') + 1)
    end
    local rateKey, eventIds = tag .. 'r:' .. keyId, ',"k":"' .. keyId .. '","b":"' .. billingId ..
      '","v":"' .. workspaceId .. '"' .. customerPart
    return {
      epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros, eventIds
    }, keyRecord, billingRecord, workspaceRecords
  end
end
