-- Runs `answer` for one partition after the other. Included last; each script with it has the function `answer(ARGV)`.
-- KEYS: those of each partition. ARGV: for each how many arguments it has, and these.
-- Answer: a line for each partition, of words with a space between two. The first error ends the script. So does much work, for the
-- server serves nobody meanwhile: then there are fewer lines than partitions, and the others are to be asked for again.
local KEYS_OF_EACH, MOST_REMOVED = 10, 10000
local lines, place = {}, 1
for nth = 1, #KEYS / KEYS_OF_EACH do
  if nth > 1 and removed_in_all > MOST_REMOVED then break end
  local before, count, arguments = (nth - 1) * KEYS_OF_EACH, tonumber(ARGV[place]), {}
  OWNER, STREAM, PROGRESS, WAKE, REFUSED, SLOTS, SEQUENCES, DEAD, MARKS = unpack(KEYS, before + 1, before + 9)
  known_of_owner, last_mark = nil, nil
  for i = 1, count do arguments[i] = ARGV[place + i] end
  place = place + 1 + count
  local words = answer(arguments)
  for i, word in ipairs(words) do
    if type(word) == 'number' then words[i] = string.format('%d', word) end
  end
  lines[nth] = table.concat(words, ' ')
end
return table.concat(lines, '\n')
