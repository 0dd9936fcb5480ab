#!lua flags=allow-oom
--@include partition
--@include logged
-- Finishes with everything up to `end`: Spark has it in its commit log. Allowed while paused, and whoever owns the partition; repeating
-- it changes nothing. ARGV: query, end, ids of entries that no producer of Baton's added: readers have met them…
-- Answer: OK, what is outstanding, and 1 where there is more to remove: repeating it goes on with that. QUERY and a later query;
-- UNLOGGED: the end is inside the range that is logged, or beyond all entries.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local refused = fence_query(tonumber(ARGV[1]))
  if refused then return refused end
  local last = look()
  local pending = summary()
  local finish = tonumber(ARGV[2])
  local fields = redis.call('HMGET', PROGRESS, 'finished', 'logged', 'loggedTo')
  local finished, logged, logged_to = tonumber(fields[1] or 0), tonumber(fields[2]), tonumber(fields[3])
  if finish > last or (logged and finish > logged and finish < logged_to) then return {'UNLOGGED'} end
  if finish <= finished then
    return {'OK', outstanding(), cut(math.min(finished, tonumber(redis.call('HGET', PROGRESS, 'committed') or 0))) and 0 or 1}
  end
  local MOST, MOST_BYTES = 1000, 2 ^ 20
  local set_aside_now, bytes = 0, 0
  for i = 3, #ARGV do
    local entry = redis.call('XRANGE', STREAM, ARGV[i], ARGV[i])[1]
    if entry and not ours(entry, last) then
      if set_aside_now == MOST or bytes > MOST_BYTES then return {'OK', outstanding(), 1} end
      set_aside_now, bytes = set_aside_now + 1, bytes + size_of(entry[2])
      set_foreign_aside(entry)
    end
  end
  local all = finish_up_to(finish, pending)
  return {'OK', outstanding(pending[1] == 0 and pending or nil), all and 0 or 1}
end
--@include many
