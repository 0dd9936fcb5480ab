-- Logged ranges, for Spark: of its driver, and `reading` of its executors.

--@script begin
#!lua flags=allow-oom
-- The number of a query that begins. KEYS: the queue's hash. ARGV: the highest number that any of its partitions knows.
-- It is above all before: also above those that a failover lost, for it is the time in microseconds at least, and in a new history
-- more, for clocks of two servers may differ.
local known = redis.call('HMGET', KEYS[1], 'query', 'queryHistory', 'ready')
if not known[3] then return {'UNKNOWN'} end
local clock = redis.call('TIME')
local time, history = clock[1] * 1e6 + clock[2], redis.call('INFO', 'replication'):match('master_replid:(%w+)')
local APART = 6e7
local jump = (not known[1] or known[2] == history) and 0 or APART
local number = math.max(tonumber(known[1] or 0) + 1, tonumber(ARGV[1]) + 1, time) + jump
redis.call('HSET', KEYS[1], 'query', string.format('%d', number), 'queryHistory', history)
return {'OK', number}

--@script fence
#!lua flags=allow-oom
--@include partition
--@include logged
-- Refuses all earlier queries from now on. ARGV: query. Answer: OK; or QUERY and a later one.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  return fence_query(tonumber(ARGV[1])) or {'OK'}
end
--@include many

--@script bounds
#!lua flags=no-writes
--@include partition
--@include logged
-- Where a partition begins and ends for who reads it from now on. Nothing is written: who looks changes nothing. Answer: OK, up to which
-- entry all is finished with, the first that is there and the last one; where there is none, the last is below the first. Behind much
-- that is not ours, the first is not looked for: then it seems to be the next number. A range that begins before what is finished with is
-- refused.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local committed = done_up_to()
  local last = tonumber(progress('last') or 0)
  local first = first_behind(committed, last, true) or committed + 1
  return {'OK', committed, first, last_up_to(last, committed) or first - 1}
end
--@include many

--@script ahead
#!lua flags=allow-oom
--@include partition
--@include logged
-- How far a range may go that begins behind `start`. Nothing of it is recorded. ARGV: query, uid, epoch, start, most entries, most
-- bytes (0: any; an entry is always allowed alone).
-- Answer: OK, its end (`start`: there is nothing), the last entry that is there, the first one, its bytes (about), and the last number
-- that was given: behind it the owner is woken. STALE and the owner's epoch; PAUSED; QUERY and a later query; or GONE, as of `log`.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local query, start, most = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local refused, paused = fence_query(query), nil
  if refused then return refused end
  refused, paused = fence(ARGV[2], ARGV[3])
  if refused then return {refused[1], refused[3]} end
  if paused then return {'PAUSED'} end
  local last = look()
  local pending = summary()
  local committed, done, finished = tonumber(progress('committed') or 0), tonumber(progress('done') or 0), tonumber(progress('finished') or 0)
  if start < finished or made_after(start) or start > last then return gone(start, last) end
  if progress('voided') then redis.call('HDEL', PROGRESS, 'voided', 'voidedTo', 'spoiled') end -- that is done at Spark, or it would not ask
  local MOST_SINGLE = 1000 -- who finishes has to take what was handed out singly from what is pending, one by one
  if pending[1] > 0 then most = math.min(most, MOST_SINGLE) end

  local first, top
  if done == committed then -- all numbers behind `committed` have an entry
    first, top = math.max(start, committed) + 1, last
  else
    first = first_behind(start, last)
    top = first and last_up_to(last, start)
  end
  if not first or first > last then
    local more = #redis.call('XRANGE', STREAM, '(' .. id(start), id(last), 'COUNT', 1) > 0 -- behind much that is not ours
    if not more then sleep(progress('waits')) end
    return {'OK', start, more and last or start, first or start + 1, 0, last}
  end
  local finish = math.min(top, first - 1 + most)
  local before, from, bytes = bytes_up_to(first - 1, last)
  local most_bytes = tonumber(ARGV[6])
  if most_bytes > 0 then finish = math.max(first, math.min(finish, number_at(before + most_bytes, from, bytes, last))) end
  if finish < top and done ~= committed then finish = last_up_to(finish, start) end
  if finish == top then sleep(progress('waits')) end
  return {'OK', finish, top, first, math.ceil(bytes_up_to(finish, last) - before), last}
end
--@include many

--@script log
#!lua flags=allow-oom
--@include partition
--@include logged
-- Logs a range: from now on it can be read until it is finished, also after a change of owner. A grant does not end that; a pod that
-- reads the partition singly does. ARGV: query, start, end, 1 where it need not have all the entries that it had before.
-- Answer: OK, and entries up to which all may have been handed out before; the same for the same range. QUERY and a later query;
-- GONE, and of what is there of the range the first and the last entry; ASIDE: all of it is set aside; MORE, as of `finish`.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local refused = fence_query(tonumber(ARGV[1]))
  if refused then return refused end
  local missing, seen = log_range(tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1')
  if missing and missing[1] == 'ASIDE' and not move_aside() then return {'MORE'} end
  return missing or {'OK', seen}
end
--@include many

--@script finish
#!lua flags=allow-oom
--@include partition
--@include logged
-- Finishes with everything up to `end`: Spark has it in its commit log. Allowed while paused, and under any owner; repeating
-- it changes nothing. ARGV: query, end.
-- Answer: OK; MORE: there is more to remove, and repeating it goes on with that. QUERY and a later query; UNLOGGED: the end is inside
-- the range that is logged, or beyond all entries.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  local refused = fence_query(tonumber(ARGV[1]))
  if refused then return refused end
  local last = look()
  local pending = summary()
  local finish = tonumber(ARGV[2])
  local finished, committed = tonumber(progress('finished') or 0), tonumber(progress('committed') or 0)
  local logged, logged_to = tonumber(progress('logged')), tonumber(progress('loggedTo'))
  if finish > last or (logged and finish > logged and finish < logged_to) then return {'UNLOGGED'} end
  if finish <= finished then
    local all
    if committed < finished then all = finish_up_to(finished, pending) else all = cut(finished, redis.call('XLEN', STREAM)) end
    return {all and 'OK' or 'MORE'}
  end
  return {finish_up_to(finish, pending) and 'OK' or 'MORE'}
end
--@include many

--@script aside
#!lua flags=allow-oom
--@include partition
--@include logged
-- Sets a range aside that cannot be processed: its entries go to the dead letters, and it is finished. First that is written down, so
-- a query that logs the range again goes on with it. ARGV: query, start, end, how often it failed, why.
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

--@script reading
#!lua flags=allow-oom
--@include partition
--@include logged
-- May a task read of a range, right now? It stands behind the XRANGE that reads, on the same connection. ARGV: query, uid and epoch under
-- which it reads as the owner ('' and 0: it does not), start, end, evaluation, attempt, executor.
-- Answer: OK and owner or lent; QUERY and a later query; LENT, and attempt and executor that have it now; UNLOGGED.
--
-- A range that is not logged, and is not finished, is logged: a failover may have lost that.
if unmade() then return {'UNKNOWN'} end
local refused = fence_query(tonumber(ARGV[1]))
if refused then return refused end
local start, finish, evaluation, attempt = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local kept, there = progress('loans'), redis.call('EXISTS', STREAM) == 1
if not there or tonumber(progress('logged')) ~= start or tonumber(progress('loggedTo')) ~= finish then
  if tonumber(progress('voided')) == start and tonumber(progress('voidedTo')) == finish then return {'UNLOGGED'} end
  local missing
  repeat missing = log_range(start, finish) until not missing or missing[1] ~= 'MORE'
  if missing then return {'UNLOGGED'} end
  kept = nil
end

-- A reader that is answered, the owner too, is recorded as it begins: from then on no earlier attempt of its evaluation is answered.
local loans = kept and cjson.decode(kept) or {}
local loan = loans[evaluation]
if loan and (attempt < loan[1] or (attempt == loan[1] and ARGV[8] ~= loan[2])) then
  redis.pcall('INCR', REFUSED)
  return {'LENT', string.format('%d', loan[1]), loan[2]}
end
if not loan or attempt > loan[1] then
  local MOST, evaluations, oldest = 32, 0, nil
  for name, other in pairs(loans) do
    evaluations = evaluations + 1
    if not oldest or other[3] < loans[oldest][3] then oldest = name end
  end
  local nth = loan and loan[3] or 1
  if not loan then
    for _, other in pairs(loans) do nth = math.max(nth, other[3] + 1) end
    if evaluations >= MOST then loans[oldest] = nil end -- one that began long before: Spark has a few at a time
  end
  loans[evaluation] = {attempt, ARGV[8], nth}
  redis.call('HSET', PROGRESS, 'loans', cjson.encode(loans))
end
local uid, epoch = record()
local owner = ARGV[2] ~= '' and ARGV[2] == uid and tonumber(ARGV[3]) == epoch
return {'OK', owner and 'owner' or 'lent'}

--@script many
-- Runs `answer` for one partition after the other. Included last; each script with it has the function `answer(ARGV)`.
-- KEYS: of each partition owner, stream, progress, refused, dead and marks; at the end the one that is never there.
-- ARGV: for each partition how many arguments it has, and these.
-- Answer: a line for each partition, of words with a space between two. The first error ends the script. So does much work, for the
-- server serves no other client meanwhile: then there are fewer lines than partitions, and the others are to be asked for again.
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
