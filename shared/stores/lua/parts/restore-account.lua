-- Makes an account again of what the books know of it, and of its settings. Its open holds are in Redis.
--
-- Needs   names time records account account-state alerts-mark holds moments
-- Defines restoreAccount(account, held, told)   held: what its open holds reserve. told is { lastMs, costMicros, sums }: the time of the last
--                                 line in the books; what corrections of holds, which stand before its own line, use or give back; and of
--                                 each class that lines changed { number, used, held, lost, expired, from, voidedAtMs }. held is what open holds
--                                 own of it, lost what its lines hold beyond that; from is the class of a voided grant (number, where the
--                                 whole class was), 0 of any other and of one that had yet to begin by Postgres
local function restoreAccount(account, held, told)
  account.billingRecord = call('HGET', account.billingKey, 's')
  local settings = readSettings(account.billingRecord, account.billingKey)
  account.taken, account.billingId, account.settings, account.isNew = settings, settings.billingId, settings.name, nil
  account.held = held
  nameHolds(account)
  makeClasses(account, told.lastMs, told.sums)
  if told.costMicros < 0 then giveBack(account, -told.costMicros) else draw(account, told.costMicros) end
  cover(account)
  -- As the lines of these corrections say it, which know of no class.
  change(account, PLAIN_CLASS, -told.costMicros, 0, 0)
  takeAlerts(account, settings.alerts)
  tellMoment(account)
end
