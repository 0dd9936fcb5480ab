#!lua flags=allow-oom
--@include partition
-- Single entries: first what is pending after the cursor, then new ones.
-- ARGV: uid, epoch, cursor (the last entry that the caller received under this epoch; 0: none), count, most outstanding,
-- and 0 if only what is pending is wanted.
-- Answer: OK, how many of the entries were pending, entries up to which all others were planned before, last entry in the
-- stream, 1 if no more than this may be outstanding, the entries.
--
-- Pending after the cursor is what a former owner left, what this owner had before it was restarted in place, and what
-- a lost reply carried: all of it may have been worked on.
local refused, paused = fence(ARGV[1], ARGV[2])
if refused then return refused end
local closing = paused or ARGV[6] == '0' -- then what a former owner left stays with the others that this owner never had
local count = tonumber(ARGV[4])
local served, left = unserved()
local entries = {}

local history = redis.call('XREADGROUP', 'GROUP', GROUP, CONSUMER, 'COUNT', count, 'STREAMS', STREAM, id(ARGV[3]))[1][2]
for _, entry in ipairs(history) do
  local n = number(entry[1])
  if not entry[2] then
    redis.call('XACK', STREAM, GROUP, entry[1]) -- somebody deleted it by hand: there is nothing to hand out
  elseif not (closing and left and n > served and n <= left) then
    entries[#entries + 1] = entry
    if left and n > served and n <= left then served = n end
  end
end
if left and not closing then
  if #history < count or served >= left then
    redis.call('HDEL', OWNER, 'served', 'left')
  else
    redis.call('HSET', OWNER, 'served', served)
  end
end
local pending = #entries
if paused and pending == 0 then return {'PAUSED'} end

void_plan()
local full = 0
if not closing and pending < count then
  local room = math.min(count - pending, ARGV[5] - redis.call('XPENDING', STREAM, GROUP)[1])
  if room <= 0 then
    full = 1
  else
    local new = redis.call('XREADGROUP', 'GROUP', GROUP, CONSUMER, 'COUNT', room, 'STREAMS', STREAM, '>')
    if new then
      for _, entry in ipairs(new[1][2]) do entries[#entries + 1] = entry end
    end
  end
end
local progress = redis.call('HMGET', PROGRESS, 'seen', 'last')
return {'OK', pending, tonumber(progress[1] or 0), tonumber(progress[2] or 0), full, entries}
