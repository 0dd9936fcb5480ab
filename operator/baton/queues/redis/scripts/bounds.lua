#!lua flags=no-writes
--@include partition
--@include logged
-- Where a partition begins and ends for who reads it from now on. Nothing is written: who looks changes nothing. Answer: OK, up to which
-- entry all is finished with, the first that is there and the last one; where there is none, the last is below the first. Behind much
-- that is not ours, the first is not looked for: then it seems to be the next number. What Spark is done with is finished with, also where
-- it is not all removed yet: a driver may have ended in the middle of that, and a range that begins before it is refused.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local committed = math.max(tonumber(progress('committed') or 0), tonumber(progress('finished') or 0))
  local last = tonumber(progress('last') or 0)
  local first = first_behind(committed, last, true) or committed + 1
  return {'OK', committed, first, last_up_to(last, committed) or first - 1}
end
--@include many
