#!lua flags=allow-oom
--@include partition
--@include logged
-- Sets a range aside that nobody can work on: its entries go to the dead letters, and it is finished. First that is written down, so
-- whoever logs the range again goes on with it. ARGV: query, start, end, how often it failed, why.
-- Answer: OK, also for what was set aside before; QUERY and a later query; UNLOGGED: the range is not there as it was; MORE: there is
-- more to move, and repeating it goes on with that.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local refused = fence_query(tonumber(ARGV[1]))
  if refused then return refused end
  local start, finish = tonumber(ARGV[2]), tonumber(ARGV[3])
  local missing = log_range(start, finish)
  if missing and missing[1] == 'MORE' then return missing end
  if missing and missing[1] ~= 'ASIDE' then return {'UNLOGGED'} end
  if not missing then
    redis.call('HSET', PROGRESS, 'aside', digits[start], 'asideTo', digits[finish], 'asideFailures', ARGV[4], 'asideWhy', ARGV[5])
    known_progress = nil
  end
  return {move_aside() and 'OK' or 'MORE'}
end
--@include many
