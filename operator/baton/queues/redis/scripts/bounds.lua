#!lua flags=allow-oom
--@include partition
--@include logged
-- Where a partition begins and ends for who reads it from now on. Answer: OK, up to which entry all is finished with, the first that
-- is there and the last one; where there is none, the last is below the first. In front of the first may be much that is not ours,
-- of which each script sets some aside: then there seems to be something everywhere.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local last = look()
  local committed = tonumber(redis.call('HGET', PROGRESS, 'committed') or 0)
  local first = first_behind(committed, last)
  if first then return {'OK', committed, first, last_up_to(last, committed)} end
  local more = #redis.call('XRANGE', STREAM, '(' .. id(committed), id(last), 'COUNT', 1) > 0
  return {'OK', committed, committed + 1, more and last or committed}
end
--@include many
