-- What was made of a text before, for the calls of a server one after the other.
--
-- Defines remember(make)   a function that gives what make(text) gives, of the last texts without making it again: as many as have together
--                          a million bytes at most
local MOST_BYTES = 1000000

local function remember(make)
  local known, bytes = {}, 0
  return function(text)
    local made = known[text]
    if made == nil then
      made, bytes = make(text), bytes + #text
      if bytes > MOST_BYTES then known, bytes = {}, #text end
      known[text] = made
    end
    return made
  end
end
