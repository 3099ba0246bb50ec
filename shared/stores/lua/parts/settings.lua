-- What the settings of a billing record declare, and the default alerts of its workspace.
--
-- Defines PLAIN_CLASS            the number of what was bought, without an end
--         hasClasses(billingRecord, billingKey)   whether settings have classes of credits, or the workspace has default alerts: then
--                                 the record has an account
--         readSettings(billingRecord, billingKey)   { version, billingId, name, isPlain, alerts, allowsOverages, capMicros, declared }
local PLAIN_CLASS = 1

-- The default alerts of a record's workspace, and a mark that changes with them; '' without any.
local function workspaceAlerts(billingKey)
  local workspaceId = string.match(billingKey, '^b:([^:]+):', 6)
  local workspaceRecord = workspaceId and call('HGET', sub(billingKey, 1, 5) .. 'w:' .. workspaceId, 'd')
  if not workspaceRecord or find(workspaceRecord, '\0-\0', 1, true) then return '', {} end
  local version, defaultRatePerSecond, defaultAddressList, alertsAt = unpackFields('sss', workspaceRecord)
  if alertsAt > #workspaceRecord then return '', {} end
  local alertsMark, declaredAt = unpackFields('s', workspaceRecord, alertsAt)
  return alertsMark, readAlerts(sub(workspaceRecord, declaredAt))
end

local function hasClasses(billingRecord, billingKey)
  return declaresClasses(billingRecord) or workspaceAlerts(billingKey) ~= ''
end

local function microsOf(credits)
  local whole, fraction = string.match(credits, '^(%d+)%.?(%d*)$')
  return tonumber(whole) * 1e6 + tonumber(string.sub(fraction .. '000000', 1, 6))
end

local function readSettings(billingRecord, billingKey)
  if not billingRecord then error('a billing record is gone') end
  local version, billingId, limitMicros, answerPart, grantsAt = unpackFields('ssss', billingRecord)
  local said = cjson.decode('{' .. answerPart .. '}')
  local mark, alerts = workspaceAlerts(billingKey)
  local settings = {
    version = tonumber(version), billingId = billingId, isPlain = string.byte(limitMicros) ~= 64 and mark == '', alerts = alerts,
    allowsOverages = said.allowOverages == true, capMicros = said.spendCap and microsOf(said.spendCap) or MAX_MICROS,
  }
  settings.name = settings.isPlain and string.match(limitMicros, '^%d+') or '@' .. version .. mark
  if string.byte(limitMicros) ~= 64 then
    -- They declare what was bought, without an end.
    settings.declared = {
      {
        ref = '', number = PLAIN_CLASS, priority = 50, endsAtMs = NEVER, rollEndsAtMs = 0, rollMaxMicros = 0, firstVersion = 0,
        begunMicros = microsOf(said.totalCredits), pending = {},
      },
    }
    return settings
  end
  local grants, alertsAt = unpackFields('s', billingRecord, grantsAt)
  settings.declared = readItems('declared', cjson.decode(grants))
  -- Its own alerts come in place of those of its workspace.
  if alertsAt <= #billingRecord then settings.alerts = readAlerts(sub(billingRecord, alertsAt)) end
  return settings
end
