#!lua flags=allow-oom
--@include partition
-- Accepts slots no longer, which go to other partitions. ARGV: version, slots…
-- Answer: the history that the server is in, for what is done next counts only there.
--
-- The barrier is the last entry that was added before that. Repeating it, also at a later time, changes nothing.
local last = look()
local values = redis.call('HMGET', SLOTS, unpack(ARGV, 2))
local changed = {}
for i = 2, #ARGV do
  local _, version = place(values[i - 1])
  if version < tonumber(ARGV[1]) then
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = ARGV[1] .. ' moved'
  end
end
if #changed > 0 then
  redis.call('HSET', SLOTS, unpack(changed))
  redis.call('HSET', PROGRESS, 'sealed', ARGV[1], 'barrier', last)
end
return history()
