#!lua flags=allow-oom
--@include partition
-- Accepts slots that come from another partition, where they are sealed: their entries wait on a stage.
-- ARGV: the history in which they were sealed, version, the partition that they come from, slots…
-- Answer: 1; or 0 where the server is in another history now, and it is not known whether they are sealed.
if history() ~= ARGV[1] then return 0 end
look()
local values = redis.call('HMGET', SLOTS, unpack(ARGV, 4))
local changed = {}
for i = 4, #ARGV do
  local _, version = place(values[i - 3])
  if version < tonumber(ARGV[2]) then
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = ARGV[2] .. ' ' .. ARGV[3]
  end
end
if #changed > 0 then redis.call('HSET', SLOTS, unpack(changed)) end
return 1
