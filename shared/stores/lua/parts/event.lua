-- Events that change a balance and are no verification.
--
-- Needs   names time
-- Defines eventText(eventStart, used, sequence, epoch, held, more)  the JSON that the caller began, with its time and the balance
--                                                             after it; held is nil or 0 but of an account, more what it
--                                                             has besides
--         appendEvent(outbox, eventStart, used, sequence, epoch)  appends that of a plain record to the outbox
local function eventText(eventStart, used, sequence, epoch, held, more)
  local heldPart = held and held > 0 and format(',"h":%.0f', held) or ''
  return format('%s,"t":%s,"u":%.0f,"s":%.0f,"e":%s%s%s}', eventStart, nowText, used, sequence, epoch, heldPart, more or '')
end

local function appendEvent(outbox, eventStart, used, sequence, epoch)
  call('XADD', outbox, '*', 'e', eventText(eventStart, used, sequence, epoch))
end
