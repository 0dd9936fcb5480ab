#!lua flags=allow-oom
--@include partition
-- Which slots the partition accepts, `slot version partition`, the last where entries wait for one, and which went elsewhere,
-- `slot version moved`; and the highest version that is known of any slot.
local MOST = 1024
local names = {}
for slot = 0, MOST - 1 do names[slot + 1] = slot end
local lines, highest = {}, 0
for i, value in ipairs(redis.call('HMGET', SLOTS, unpack(names))) do
  local _, version = place(value)
  if value then lines[#lines + 1] = names[i] .. ' ' .. value end
  highest = math.max(highest, version)
end
return {table.concat(lines, ','), highest}
