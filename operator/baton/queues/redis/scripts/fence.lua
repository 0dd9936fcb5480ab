#!lua flags=allow-oom
--@include partition
--@include logged
-- Refuses all earlier queries from now on. ARGV: query. Answer: OK; or QUERY and a later one.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  return fence_query(tonumber(ARGV[1])) or {'OK'}
end
--@include many
