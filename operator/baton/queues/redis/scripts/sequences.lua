#!lua flags=allow-oom
--@include partition
-- What producers have sent, a page at a time. ARGV: cursor (0: from the beginning), slots that are asked for…
-- Answer: the next cursor (0: that was all), and lines `slot:producer sequence seconds`.
local MOST = 300 -- of all; names of more than so many characters are passed over: no producer of Baton's has one
local wanted = {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end
local found = redis.call('HSCAN', SEQUENCES, ARGV[1], 'COUNT', MOST)
local lines = {}
for i = 1, #found[2], 2 do
  local field, value = found[2][i], found[2][i + 1]
  if #field <= MOST and wanted[field:match('^%d+')] then lines[#lines + 1] = field .. ' ' .. value end
end
return {found[1], table.concat(lines, '\n')}
