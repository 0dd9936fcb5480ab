#!lua flags=no-writes
--@include partition
--@include logged
-- The first entry that was sent at some time or later: so many are looked at in one script. ARGV: behind which to begin ('': what is
-- finished with), the number to end before, milliseconds since 1970 ('': no time).
-- Answer: the number that was reached, how many entries came before it, and behind which to go on ('': that is all).
--
-- They are looked at one by one: clocks that were set back, and entries that came from another partition, are not in the order of time.
local MOST, MOST_BYTES = 1000, 2 ^ 20
local behind, finish, since = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if behind == '' then behind = id(done_up_to()) end
local last, passed, looked, bytes = tonumber(progress('last') or 0), 0, 0, 0
while looked < MOST and bytes < MOST_BYTES do
  local some = at_once(MOST - looked)
  local entries = redis.call('XRANGE', STREAM, '(' .. behind, '(' .. id(finish), 'COUNT', some)
  for _, entry in ipairs(entries) do
    looked, bytes, behind = looked + 1, bytes + size_of(entry[2]), entry[1]
    if ours(entry, last) then
      if since and tonumber(entry[2][6]) >= since then return {number(entry[1]), passed, ''} end
      passed = passed + 1
    end
  end
  if #entries < some then return {finish, passed, ''} end
end
return {finish, passed, behind}
