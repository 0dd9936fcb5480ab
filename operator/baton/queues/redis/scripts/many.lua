-- Runs `answer` for one partition after the other. Included last; each script with it has the function `answer(ARGV)`.
-- KEYS: of each partition owner, stream, progress, refused, dead and marks; at the end the one that is never there.
-- ARGV: for each partition how many arguments it has, and these.
-- Answer: a line for each partition, of words with a space between two. The first error ends the script. So does much work, for the
-- server serves nobody meanwhile: then there are fewer lines than partitions, and the others are to be asked for again.
local KEYS_OF_EACH, MOST_REMOVED = 6, 10000
local lines, place = {}, 1
for nth = 1, (#KEYS - 1) / KEYS_OF_EACH do
  if nth > 1 and removed_in_all > MOST_REMOVED then break end
  local count, arguments = tonumber(ARGV[place]), {}
  local owner, stream, progress, refused, dead, marks = unpack(KEYS, (nth - 1) * KEYS_OF_EACH + 1, nth * KEYS_OF_EACH)
  begin_partition(owner, stream, progress, nil, refused, nil, nil, dead, marks)
  for i = 1, count do arguments[i] = ARGV[place + i] end
  place = place + 1 + count
  local words = answer(arguments)
  for i, word in ipairs(words) do
    if type(word) == 'number' then words[i] = digits[word] end
  end
  lines[nth] = table.concat(words, ' ')
end
return table.concat(lines, '\n')
