-- Scripts of logged ranges, for Spark's driver; `reading` is for its executors.

--@script begin
#!lua flags=allow-oom
--@include history
-- Returns the number of a new query. KEYS: the queue's hash. ARGV: the highest number that any of its partitions knows.
-- It is above all earlier numbers, even those lost in a failover: it is at least the time in microseconds, plus a margin in a new
-- history, as the clocks of two servers may differ.
local known = redis.call('HMGET', KEYS[1], 'query', 'queryHistory', 'ready')
if not known[3] then return {'UNKNOWN'} end
local clock = redis.call('TIME')
local APART = 6e7
local jump = (not known[1] or known[2] == history()) and 0 or APART
local number = math.max(tonumber(known[1] or 0) + 1, tonumber(ARGV[1]) + 1, clock[1] * 1e6 + clock[2]) + jump
redis.call('HSET', KEYS[1], 'query', string.format('%d', number), 'queryHistory', history())
return {'OK', number}

--@script fence
#!lua flags=allow-oom
--@include partition
--@include logged
-- Fences all earlier queries. ARGV: query. Answer: OK; or QUERY and a later query.
local function answer(ARGV)
  if unmade() then return {'UNKNOWN'} end
  return fence_query(tonumber(ARGV[1])) or {'OK'}
end
--@include many

--@script bounds
#!lua flags=no-writes
--@include partition
--@include logged
-- Returns where reading of a partition can begin and end. Writes nothing. Answer: OK, the entry up to which all are finished, the
-- first existing entry, and the last one; if there is none, the last is below the first. After many foreign entries the search
-- for the first stops, and the next number is returned. A range that begins before the finished entries is refused.
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
-- Returns how far a range that begins after `start` may reach. Records nothing. ARGV: query, uid, epoch, start, most entries,
-- most bytes (0: no limit; a single entry is always allowed).
-- Answer: OK, its end (`start`: it is empty), the last existing entry, the first one, its approximate bytes, and the last number
-- used: entries after it wake the owner. STALE and the owner's epoch; PAUSED; QUERY and a later query; or GONE, as of `log`.
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
  if progress('voided') then redis.call('HDEL', PROGRESS, 'voided', 'voidedTo', 'spoiled') end -- finished, as Spark asks for the next range
  local MOST_SINGLE = 1000 -- finishing removes entries that were handed out singly from the pending list one by one
  if pending[1] > 0 then most = math.min(most, MOST_SINGLE) end

  local first, top
  if done == committed then -- all numbers after `committed` have an entry
    first, top = math.max(start, committed) + 1, last
  else
    first = first_behind(start, last)
    top = first and last_up_to(last, start)
  end
  if not first or first > last then
    local more = #redis.call('XRANGE', STREAM, '(' .. id(start), id(last), 'COUNT', 1) > 0 -- after many foreign entries
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
-- Logs a range, which can then be read until it is finished. A change of owner does not end that; a pod that reads the partition
-- singly does. ARGV: query, start, end, 1 if some of its earlier entries may be missing.
-- Answer: OK, and the entry up to which all may have been handed out before; repeating it gives the same answer. QUERY and a
-- later query; GONE, and the first and last existing entry of the range; ASIDE: all of it is set aside; MORE, as of `finish`.
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
-- Finishes everything up to `end`, which Spark has in its commit log. Allowed while paused, and under any owner; repeating it
-- changes nothing. ARGV: query, end.
-- Answer: OK; MORE: repeat to remove more; QUERY and a later query; UNLOGGED: the end is inside the logged range, or after the
-- last entry.
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
-- Sets aside a range that cannot be processed: moves its entries to the dead letters and finishes it. The intention is recorded
-- first, so that a query that logs the range again continues. ARGV: query, start, end, how often it failed, why.
-- Answer: OK, also if it was set aside before; QUERY and a later query; UNLOGGED: the range is incomplete; MORE: repeat to move
-- more.
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
-- Checks that a task may read a range now. Sent after the XRANGE that reads, on the same connection. ARGV: query, uid and epoch
-- under which it reads as the owner ('' and 0: not as the owner), start, end, evaluation, attempt, executor.
-- Answer: OK and owner or lent; QUERY and a later query; LENT, and attempt and executor that have it now; UNLOGGED.
--
-- Logs a range that is neither logged nor finished, as a failover may have lost the record.
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

-- Each accepted reader, including the owner, is recorded when it begins: from then on earlier attempts of its evaluation are
-- rejected.
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
    if evaluations >= MOST then loans[oldest] = nil end -- the oldest one: Spark has a few at a time
  end
  loans[evaluation] = {attempt, ARGV[8], nth}
  redis.call('HSET', PROGRESS, 'loans', cjson.encode(loans))
end
local uid, epoch = record()
local owner = ARGV[2] ~= '' and ARGV[2] == uid and tonumber(ARGV[3]) == epoch
return {'OK', owner and 'owner' or 'lent'}

--@script many
-- Runs `answer` for one partition after the other. Included last, by scripts that define the function `answer(ARGV)`.
-- KEYS: for each partition owner, stream, progress, refused, dead and marks; at the end the key `never`.
-- ARGV: for each partition the number of its arguments, and these.
-- Answer: a line for each partition, of fields separated by spaces. The first error ends the script. After much work the script
-- stops, as it blocks other clients: then there are fewer lines than partitions; ask again for the others.
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
