#!lua flags=allow-oom
--@include partition
-- Finishes with a plan: everything up to its end. Allowed while paused; repeating it changes nothing. ARGV: uid, epoch, end.
-- Answer: OK, what is outstanding, and 1 where there is more to trim: repeating it goes on with that.
local refused = fence(ARGV[1], ARGV[2])
if refused then return refused end
local finish = tonumber(ARGV[3])
local pending = summary()
local fields = redis.call('HMGET', PROGRESS, 'committed', 'planned', 'count', 'kept', 'last')
local committed, kept = tonumber(fields[1] or 0), tonumber(fields[4] or 0)
if finish > committed then
  if finish ~= tonumber(fields[2]) then return {'UNPLANNED'} end
  kept = committed -- one batch behind: what this commit finishes with stays until the next one
  redis.call('HSET', PROGRESS, 'committed', finish, 'kept', kept)
  redis.call('HINCRBY', PROGRESS, 'done', fields[3])
  redis.call('HDEL', PROGRESS, 'planned', 'count')
  if finish == tonumber(fields[5]) then -- all is done; what is kept was added since that was so before
    redis.call('HSET', PROGRESS, 'largestBefore', redis.call('HGET', PROGRESS, 'largest') or 0)
    redis.call('HDEL', PROGRESS, 'largest')
  end

  -- Entries that were handed out singly before are finished with too, and reading singly begins behind the end.
  if pending[1] == 0 or number(pending[3]) <= finish then redis.call('XGROUP', 'SETID', STREAM, GROUP, id(finish)) end
  local served, left = unserved()
  while pending[1] > 0 do
    local ids, waited = {}, 0
    for i, entry in ipairs(redis.call('XPENDING', STREAM, GROUP, '-', id(finish), 1000)) do
      ids[i] = entry[1]
      if left and number(entry[1]) > served and number(entry[1]) <= left then waited = waited + 1 end
    end
    if #ids > 0 then redis.call('XACK', STREAM, GROUP, unpack(ids)) end
    if waited > 0 then redis.call('HINCRBY', OWNER, 'waiting', -waited) end
    if #ids < 1000 then break end
  end
  if left and left <= finish then redis.call('HDEL', OWNER, 'served', 'left', 'waiting') end
end
return {'OK', outstanding(), trim(kept) and 0 or 1}
