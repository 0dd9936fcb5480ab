#!lua flags=allow-oom
--@include partition
--@include logged
-- Logs a range: from now on it can be read until it is finished, whoever owns the partition. A grant does not end that; a pod that
-- reads the partition singly does. ARGV: query, start, end, 1 where it need not have all the entries that it had before.
-- Answer: OK, and entries up to which all may have been handed out before; the same for the same range. QUERY and a later query;
-- GONE, and of what is there of the range the first and the last entry; ASIDE: all of it is set aside; MORE, as of `finish`.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local refused = fence_query(tonumber(ARGV[1]))
  if refused then return refused end
  local missing, seen = log_range(tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1')
  if missing and missing[1] == 'ASIDE' and not move_aside() then return {'MORE'} end
  return missing or {'OK', seen}
end
--@include many
