#!lua flags=no-writes
--@include partition
-- Dead letters, a page at a time, without their values. ARGV: the first id, the last one, how many, and bytes of a text that are told.
-- Answer: of each its id, offset, key, bytes of the key, bytes of the value, timestamp, deliveries, and why.
local MOST_BYTES = 2 ^ 20 -- letters are copied with all that they carry, while the server serves nobody: a page may have fewer
local from, most, page, bytes = ARGV[1], tonumber(ARGV[4]), {}, 0
while #page < tonumber(ARGV[3]) and bytes < MOST_BYTES do
  local letter = redis.call('XRANGE', DEAD, from, ARGV[2], 'COUNT', 1)[1]
  if not letter then break end
  local fields = {}
  for n = 1, #letter[2], 2 do fields[letter[2][n]] = letter[2][n + 1] end
  local function told(name) return (fields[name] or ''):sub(1, most) end
  local key, value = fields['key'] or '', fields['value'] or ''
  bytes = bytes + size_of(letter[2])
  from = '(' .. letter[1]
  page[#page + 1] = {letter[1], told('offset'), told('key'), #key, #value, told('timestamp'), told('deliveries'), told('why')}
end
return page
