#!lua flags=allow-oom
--@include partition
-- Moves entries from a stage to the partition's stream: what stood before them is done. When the stage is empty, its slots go to
-- the stream from then on. ARGV: the history in which that was seen, version, the partition that the slots come from, slots…
-- Answer: 1 when all is done; 0: there is more to move, or the server is in another history now.
--
-- So many entries or bytes at a time keep others waiting for some milliseconds only. While there are more, who adds to the stage
-- moves twice as many (add.lua), so that it becomes empty however much is sent.
local MOST, MOST_BYTES = 500, 1000000
if history() ~= ARGV[1] then return 0 end
local from = stage(ARGV[2], ARGV[3])
local first, waits = look()
if redis.call('EXISTS', STREAM) == 0 then make_again() end
local last = follow(from, first, MOST, MOST_BYTES)
if last > first then grown(last, waits) end
if redis.call('XLEN', from) > 0 then
  redis.call('HSET', PROGRESS, 'follows ' .. from, ARGV[1])
  return 0
end

local values = redis.call('HMGET', SLOTS, unpack(ARGV, 4))
local changed = {}
for i = 4, #ARGV do
  if values[i - 3] == ARGV[2] .. ' ' .. ARGV[3] then
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = ARGV[2]
  end
end
if #changed > 0 then redis.call('HSET', SLOTS, unpack(changed)) end
redis.call('DEL', from)
redis.call('HDEL', PROGRESS, 'follows ' .. from)
local every = {}
for slot = 0, 1023 do every[slot + 1] = slot end
for _, value in ipairs(redis.call('HMGET', SLOTS, unpack(every))) do
  local to = place(value)
  if to and to ~= STREAM then return 1 end
end
local staged = tonumber(redis.call('HGET', PROGRESS, 'staged') or 0)
if staged > 0 then redis.call('HINCRBY', PROGRESS, 'lost', staged) end -- a stage was deleted, or shortened
redis.call('HDEL', PROGRESS, 'staged', 'suspect') -- below 0: entries were added by hand
return 1
