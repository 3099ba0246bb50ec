-- Events that change a balance and are no verification.
--
-- Needs   names time
-- Defines appendEvent(outbox, eventStart, used, sequence, epoch)  appends to the outbox the JSON that the caller began,
--                                                                 with its time and the balance after it
local function appendEvent(outbox, eventStart, used, sequence, epoch)
  call('XADD', outbox, '*', 'e', format('%s,"t":%s,"u":%.0f,"s":%.0f,"e":%s}', eventStart, nowText, used, sequence, epoch))
end
