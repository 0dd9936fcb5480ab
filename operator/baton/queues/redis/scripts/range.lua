#!lua flags=allow-oom
--@include partition
-- Reads inside a plan, as often as needed, also while paused. ARGV: uid, epoch, after, end, count.
-- Answer: OK, the entries (told), the last that was looked at, and how many were.
local refused = fence(ARGV[1], ARGV[2])
if refused then return refused end
local fields = redis.call('HMGET', PROGRESS, 'planned', 'committed')
if tonumber(ARGV[4]) > math.max(tonumber(fields[1] or 0), tonumber(fields[2] or 0)) then return {'UNPLANNED'} end
local found = redis.call('XRANGE', STREAM, '(' .. id(ARGV[3]), id(ARGV[4]), 'COUNT', ARGV[5])
for _, entry in ipairs(found) do
  if ours(entry, tonumber(ARGV[4])) then tell(entry, math.huge) else set_foreign_aside(entry) end
end
local about_them, their_texts = told()
return {'OK', about_them, their_texts, #found > 0 and found[#found][1] or false, #found}
