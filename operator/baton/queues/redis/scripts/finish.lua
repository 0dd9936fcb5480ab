#!lua flags=allow-oom
--@include partition
--@include logged
-- Finishes with everything up to `end`: Spark has it in its commit log. Allowed while paused, and whoever owns the partition; repeating
-- it changes nothing. ARGV: query, end, ids of entries that no producer of Baton's added: readers have met them… So these need not be
-- looked for.
-- Answer: OK; MORE: there is more to remove, and repeating it goes on with that. QUERY and a later query; UNLOGGED: the end is inside
-- the range that is logged, or beyond all entries.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local refused = fence_query(tonumber(ARGV[1]))
  if refused then return refused end
  local last = look()
  local pending = summary()
  local finish = tonumber(ARGV[2])
  local finished, committed = tonumber(progress('finished') or 0), tonumber(progress('committed') or 0)
  local logged, logged_to = tonumber(progress('logged')), tonumber(progress('loggedTo'))
  if finish > last or (logged and finish > logged and finish < logged_to) then return {'UNLOGGED'} end
  if finish <= finished then
    local all
    if committed < finished then all = finish_up_to(finished, pending) else all = cut(finished, redis.call('XLEN', STREAM)) end
    return {all and 'OK' or 'MORE'}
  end
  local MOST, MOST_BYTES = 1000, 2 ^ 20
  local set_aside_now, bytes = 0, 0
  for i = 3, #ARGV do
    local entry = redis.call('XRANGE', STREAM, ARGV[i], ARGV[i])[1]
    if entry and not ours(entry, last) then
      if set_aside_now == MOST or bytes > MOST_BYTES then return {'MORE'} end
      set_aside_now, bytes = set_aside_now + 1, bytes + size_of(entry[2])
      set_foreign_aside(entry)
    end
  end
  return {finish_up_to(finish, pending) and 'OK' or 'MORE'}
end
--@include many
