#!lua flags=allow-oom
--@include partition
-- Moves entries from a stage to the partition's stream: what stood before them is done. When the stage is empty, its slots go to
-- the stream from then on. ARGV: the history in which that was seen, version, the partition that the slots come from, slots…
-- Answer: 1 when all is done; 0: there is more to move, or the server is in another history now.
--
-- So many entries or bytes at a time keep others waiting for some milliseconds only.
local MOST, MOST_BYTES, AT_ONCE = 500, 1000000, 50
if history() ~= ARGV[1] then return 0 end
local from = stage(ARGV[2], ARGV[3])
local first, waits = look()
if redis.call('EXISTS', STREAM) == 0 then make_again() end
local last, moved, bytes, stuck = first, 0, 0, false
while moved < MOST and bytes < MOST_BYTES and not stuck do
  local entries = redis.call('XRANGE', from, '-', '+', 'COUNT', AT_ONCE)
  local gone = {}
  for _, entry in ipairs(entries) do
    if not well_formed(entry[2]) then
      set_foreign_aside(entry)
    elseif append(last, unpack(entry[2])) then
      last = last + 1
      for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    else
      stuck = true
      break
    end
    gone[#gone + 1] = entry[1]
  end
  if #gone > 0 then redis.call('XDEL', from, unpack(gone)) end
  moved = moved + #gone
  if #entries < AT_ONCE then break end
end
if last > first then grown(last, waits) end
if moved > 0 then redis.call('HINCRBY', PROGRESS, 'staged', -moved) end
if redis.call('XLEN', from) > 0 then return 0 end

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
return 1
