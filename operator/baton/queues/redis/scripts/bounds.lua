#!lua flags=no-writes
--@include partition
--@include logged
-- Where a partition begins and ends for who reads it from now on. Nothing is written: who looks changes nothing. Answer: OK, up to which
-- entry all is finished with, the first that is there and the last one; where there is none, the last is below the first. Behind much
-- that is not ours, the first is not looked for: then it seems to be the next number. A range that begins before what is finished with is
-- refused.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local committed = done_up_to()
  local last = tonumber(progress('last') or 0)
  local first = first_behind(committed, last, true) or committed + 1
  return {'OK', committed, first, last_up_to(last, committed) or first - 1}
end
--@include many
