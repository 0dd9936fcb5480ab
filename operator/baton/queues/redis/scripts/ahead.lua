#!lua flags=allow-oom
--@include partition
--@include logged
-- How far a range may go that begins behind `start`. Nothing of it is recorded. ARGV: query, uid, epoch, start, most entries, most
-- bytes (0: any; an entry is always allowed alone).
-- Answer: OK, its end (`start`: there is nothing), the last entry that is there, the first one, its bytes (about), and the last number
-- that was given: behind it the owner is woken. STALE and the owner's epoch; PAUSED; QUERY and a later query; or GONE, as of `log`.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local query, start, most = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local refused, paused = fence_query(query), nil
  if refused then return refused end
  refused, paused = fence(ARGV[2], ARGV[3])
  if refused then return {refused[1], refused[3]} end
  if paused then return {'PAUSED'} end
  local last = look()
  local pending = summary()
  local committed, done, finished = tonumber(progress('committed') or 0), tonumber(progress('done') or 0), tonumber(progress('finished') or 0)
  if start < finished or made_after(start) or start > last then return gone(start, last) end
  if progress('voided') then redis.call('HDEL', PROGRESS, 'voided', 'voidedTo', 'spoiled') end -- that is done at Spark, or it would not ask
  local MOST_SINGLE = 1000 -- who finishes has to take what was handed out singly from what is pending, one by one
  if pending[1] > 0 then most = math.min(most, MOST_SINGLE) end

  local first, top
  if done == committed then -- all numbers behind `committed` have an entry
    first, top = math.max(start, committed) + 1, last
  else
    first = first_behind(start, last)
    top = first and last_up_to(last, start)
  end
  if not first or first > last then
    local more = #redis.call('XRANGE', STREAM, '(' .. id(start), id(last), 'COUNT', 1) > 0 -- behind much that is not ours
    if not more then sleep(progress('waits')) end
    return {'OK', start, more and last or start, first or start + 1, 0, last}
  end
  local finish = math.min(top, first - 1 + most)
  local before, from, bytes = bytes_up_to(first - 1, last)
  local most_bytes = tonumber(ARGV[6])
  if most_bytes > 0 then finish = math.max(first, math.min(finish, number_at(before + most_bytes, from, bytes, last))) end
  if finish < top and done ~= committed then finish = last_up_to(finish, start) end
  if finish == top then sleep(progress('waits')) end
  return {'OK', finish, top, first, math.ceil(bytes_up_to(finish, last) - before), last}
end
--@include many
