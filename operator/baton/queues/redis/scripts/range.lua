#!lua flags=allow-oom
--@include partition
-- Reads inside a plan, as often as needed, also while paused. ARGV: uid, epoch, after, end, count, and how many bytes of entries
-- it may have at most (but always one entry).
-- Answer: OK, the entries (told), the last that was looked at, and 1 if there may be more.
local refused = fence(ARGV[1], ARGV[2])
if refused then return refused end
local fields = redis.call('HMGET', PROGRESS, 'planned', 'committed')
if tonumber(ARGV[4]) > math.max(tonumber(fields[1] or 0), tonumber(fields[2] or 0)) then return {'UNPLANNED'} end
local left, most_bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local last, more, cut = false, true, false
while more and not cut and left > 0 do
  local some = at_once(left)
  local found = redis.call('XRANGE', STREAM, '(' .. (last or id(ARGV[3])), id(ARGV[4]), 'COUNT', some)
  for _, entry in ipairs(found) do
    if not ours(entry, tonumber(ARGV[4])) then
      set_foreign_aside(entry)
    elseif not tell(entry, most_bytes) then
      cut = true
      break
    end
    last = entry[1]
  end
  left = left - #found
  more = cut or #found == some
end
local about_them, their_texts = told()
return {'OK', about_them, their_texts, last, more and 1 or 0}
