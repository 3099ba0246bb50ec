-- What was made of a text before, for the calls of a server one after the other.
--
-- Defines remember(make)   a function that gives what make(text) gives, of the last texts, at most a thousand, without making it again
local MOST_TEXTS = 1000

local function remember(make)
  local known, count = {}, 0
  return function(text)
    local made = known[text]
    if made == nil then
      if count == MOST_TEXTS then known, count = {}, 0 end
      made, count = make(text), count + 1
      known[text] = made
    end
    return made
  end
end
