#!lua flags=no-writes
--@include partition
-- Dead letters, a page at a time, without their values. ARGV: the first id, the last one, how many, and bytes of a text that are told.
-- Answer: of each its id, offset, key, bytes of the key, bytes of the value, timestamp, deliveries, and why.
local most = tonumber(ARGV[4])
local page = {}
for i, letter in ipairs(redis.call('XRANGE', DEAD, ARGV[1], ARGV[2], 'COUNT', ARGV[3])) do
  local fields = {}
  for n = 1, #letter[2], 2 do fields[letter[2][n]] = letter[2][n + 1] end
  local function told(name) return (fields[name] or ''):sub(1, most) end
  local key, value = fields['key'] or '', fields['value'] or ''
  page[i] = {letter[1], told('offset'), told('key'), #key, #value, told('timestamp'), told('deliveries'), told('why')}
end
return page
