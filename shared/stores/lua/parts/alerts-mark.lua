-- The default alerts of a workspace, which its records' accounts have taken in or not.
--
-- Needs   names records
-- Defines alertsMarkFor(billingKey)   a mark that changes with the default alerts of a record's workspace, '' without any; and after it
--                                  the workspace's record, and where the alerts stand in it
local function alertsMarkFor(billingKey)
  local workspaceId = string.match(billingKey, '^b:([^:]+):', 6)
  local workspaceRecord = workspaceId and call('HGET', string.sub(billingKey, 1, 5) .. 'w:' .. workspaceId, 'd')
  if not workspaceRecord or string.find(workspaceRecord, '\0-\0', 1, true) then return '' end
  local version, defaultRatePerSecond, defaultAddressList, alertsAt = unpackFields('sss', workspaceRecord)
  if alertsAt > #workspaceRecord then return '' end
  local alertsMark, countAt = unpackFields('s', workspaceRecord, alertsAt)
  return alertsMark, workspaceRecord, countAt
end
