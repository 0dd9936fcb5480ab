-- Functions of the scripts for logged ranges; included after partition.lua, and never run by itself. A range is (start, end]: it
-- contains the entries after the number `start`, up to and including the number `end`.

-- Returns the refusal of a query that is not the latest one, or nil. Records a later query than the known one. Loans to tasks of
-- earlier queries end, as task numbers may start again; the logged range counts as handed out to these tasks.
local function fence_query(query)
  local known, logged_to = tonumber(progress('query') or 0), progress('loggedTo')
  if query == known then return nil end
  if query < known then
    redis.pcall('INCR', REFUSED)
    return {'QUERY', known}
  end
  redis.call('HSET', PROGRESS, 'query', string.format('%d', query))
  redis.call('HDEL', PROGRESS, 'loans')
  if logged_to then redis.call('HSET', PROGRESS, 'logSeen', logged_to) end
  known_progress = nil
  return nil
end

-- Whether the partition does not exist. Scripts must not create it then.
local function unmade()
  if progress('last') then return false end
  local _, _, _, _, made = record() -- its progress was deleted by hand
  return not made
end

-- The entry up to which all are finished. That includes ranges that Spark finished and that are not completely removed yet, as a
-- driver may have ended during the removal.
local function done_up_to()
  local committed, finished = progress('committed') or 0, progress('finished') or 0
  return math.max(tonumber(committed), tonumber(finished))
end

-- Formatting numbers is slow, and there are few different ones.
local digits = setmetatable({}, {__index = function(known, n)
  known[n] = string.format('%d', n)
  return known[n]
end})
local function id(number) return digits[number] .. '-' .. SEGMENT end

local looked_at = 0 -- cost of reading in bytes, including a fixed cost per entry

-- The numbers of Baton's first entry after `start` (and the entry), and of the last one up to `finish`; nil if there is none.
-- Foreign entries (XADD by hand) before the first are moved to the dead letters, unless `only_looks`; if there are many, returns
-- nil for now.
local function first_behind(start, finish, only_looks)
  local MOST, MOST_BYTES = 1000, 2 ^ 20
  local from, bytes = '(' .. id(start), 0
  for _ = 1, MOST do
    local entry = redis.call('XRANGE', STREAM, from, id(finish), 'COUNT', 1)[1]
    if not entry or bytes > MOST_BYTES then return nil end
    looked_at = looked_at + 1000 + size_of(entry[2])
    if ours(entry, finish) then return number(entry[1]), entry end
    bytes = bytes + size_of(entry[2])
    if not only_looks then set_foreign_aside(entry) end
    from = '(' .. entry[1]
  end
end
local function last_up_to(finish, start)
  local from = id(finish)
  while true do
    local entry = redis.call('XREVRANGE', STREAM, from, '(' .. id(start), 'COUNT', 1)[1]
    if not entry then return nil end
    if entry[1]:match(OURS) then return number(entry[1]) end
    from = '(' .. entry[1]
  end
end

local BEHIND_IT = '-' .. SEGMENT + 1 -- after all ids with a number, including entries added by hand
-- Removes all entries up to this one. `~` leaves those that share a node of the stream with others; these are removed by an exact
-- trim at the end, or at once if there are few (`length`: upper bound of the stream's length). Returns whether all are removed,
-- and how many were.
local function cut(finish, length)
  local AT_ONCE, TIMES = 1000, 20
  local behind, gone, times = digits[finish] .. BEHIND_IT, 0, 0
  if length <= AT_ONCE then
    return true, redis.call('XTRIM', STREAM, 'MINID', '=', behind)
  end
  while times < TIMES do
    local removed = redis.call('XTRIM', STREAM, 'MINID', '~', behind, 'LIMIT', AT_ONCE)
    gone, times, removed_in_all = gone + removed, times + 1, removed_in_all + removed
    if removed == 0 then
      return true, gone + redis.call('XTRIM', STREAM, 'MINID', '=', behind)
    end
  end
  return false, gone
end

-- Finishes entries up to this one that were handed out singly before; reading singly continues after it.
local function finish_pending(finish, pending)
  if pending[1] == 0 or number(pending[3]) <= finish then redis.call('XGROUP', 'SETID', STREAM, GROUP, id(finish)) end
  if pending[1] == 0 then return end
  local served, left = unserved()
  while pending[1] > 0 do
    local ids, waited = {}, 0
    for i, entry in ipairs(redis.call('XPENDING', STREAM, GROUP, '-', id(finish), 1000)) do
      ids[i] = entry[1]
      if left and number(entry[1]) > served and number(entry[1]) <= left then waited = waited + 1 end
    end
    removed_in_all = removed_in_all + #ids
    if #ids > 0 then redis.call('XACK', STREAM, GROUP, unpack(ids)) end
    if waited > 0 then redis.call('HINCRBY', OWNER, 'waiting', -waited) end
    if #ids < 1000 then break end
  end
  if left and left <= finish then redis.call('HDEL', OWNER, 'served', 'left', 'waiting') end
end

-- Updates the size of the largest entry after this one was finished.
local function shrunk(finish, last)
  local found = redis.call('HMGET', PROGRESS, 'largest', 'largestAt')
  local half, passed = math.floor(tonumber(found[1] or 0) / 2), finish >= tonumber(found[2] or HIGHEST)
  if finish >= last or passed and half <= NOTED then -- later entries record their size themselves
    redis.call('HDEL', PROGRESS, 'largest', 'largestAt')
  elseif passed then
    redis.call('HSET', PROGRESS, 'largest', half, 'largestAt', last)
  end
end

-- Moves foreign entries after `start`, up to `finish`, to the dead letters, as many as one script may process. Returns the entry
-- up to which it has checked.
local function set_all_foreign_aside(start, finish, last)
  local from, enough = id(start), removed_in_all + 10000
  largest = nil -- that of the partition before
  repeat
    local some = at_once(MOST_AT_ONCE)
    local entries = redis.call('XRANGE', STREAM, '(' .. from, id(finish), 'COUNT', some)
    for _, entry in ipairs(entries) do
      if removed_in_all > enough then return number(from) end
      removed_in_all = removed_in_all + 3 + size_of(entry[2]) / 1000
      if not ours(entry, last) then set_foreign_aside(entry) end
      from = entry[1]
    end
  until #entries < some
  return finish
end

-- Finishes all entries up to this one, and the logged range. Returns whether all are removed; otherwise repeat. If numbers have
-- gaps (`done` is not `committed`), entries count as done when they are removed, and the end is committed when all are.
-- `pending`: its summary.
local function finish_up_to(finish, pending)
  local committed, done, last = tonumber(progress('committed') or 0), tonumber(progress('done') or 0), tonumber(progress('last') or 0)
  local largest_noted = progress('largest')
  if progress('logged') or progress('voided') then
    redis.call('HDEL', PROGRESS, 'logged', 'loggedTo', 'count', 'logSeen', 'loans', 'voided', 'voidedTo', 'spoiled')
  end
  known_progress = nil
  local length, reached = redis.call('XLEN', STREAM), finish
  if finish <= committed then
    redis.call('HSET', PROGRESS, 'finished', digits[finish])
    return (cut(committed, length))
  end
  finish_pending(finish, pending)
  if length < last - done then -- some vanished
    redis.call('HINCRBY', PROGRESS, 'lost', last - done - length)
    done = last - length
  end
  if length > last - done then reached = set_all_foreign_aside(committed, finish, last) end -- there are foreign entries
  local gaps, all, gone = done ~= committed, false, 0
  if gaps then
    if cut(committed, length) then all, gone = cut(reached, length) end
    if not all then
      redis.call('HSET', PROGRESS, 'finished', digits[finish], 'done', digits[done + gone])
      return false
    end
    -- If entries were deleted by hand, this counts too few; once none is left, the count is exact.
    done = #redis.call('XRANGE', STREAM, '-', id(last), 'COUNT', 1) == 0 and last or done + gone
  else
    all = cut(reached, length)
    done = reached
  end
  redis.call('HSET', PROGRESS, 'finished', digits[finish], 'committed', digits[reached], 'done', digits[done])
  if largest_noted then shrunk(reached, last) end
  return all and reached == finish
end

local function bytes_at(one) return tonumber(one[2][2]) end

-- Estimates the bytes of keys, values and headers up to an entry, assuming entries of equal size between two marks. Also returns
-- the last mark up to the entry, and its bytes.
local function bytes_up_to(n, last)
  local from, to, known, sum = marked and tonumber(progress('markedTo')), last, marked, added_bytes
  if not from then return sum, n, sum end
  if from > n then
    local before = redis.call('XREVRANGE', MARKS, id(n), '-', 'COUNT', 1)[1]
    local after = redis.call('XRANGE', MARKS, before and '(' .. before[1] or '-', '+', 'COUNT', 1)[1]
    if not after then return sum, n, sum end -- deleted by hand
    to, sum = number(after[1]), bytes_at(after)
    if not before then return sum, n, sum end
    from, known = number(before[1]), bytes_at(before)
  end
  return known + (sum - known) * (n - from) / math.max(1, to - from), from, known
end

-- Estimates the number up to which there are `target` bytes, beginning at the mark `from` with `known` bytes.
local function number_at(target, from, known, last)
  local AT_ONCE = 100
  while (tonumber(progress('markedTo')) or 0) > from do
    local marks = redis.call('XRANGE', MARKS, '(' .. id(from), '+', 'COUNT', AT_ONCE)
    if #marks == 0 then break end -- deleted by hand
    for _, one in ipairs(marks) do
      local to, sum = number(one[1]), bytes_at(one)
      if sum > target then return math.floor(from + (to - from) * (target - known) / (sum - known)) end
      from, known = to, sum
    end
  end
  if added_bytes <= target then return last end
  return math.floor(from + (last - from) * (target - known) / (added_bytes - known))
end

-- Whether the partition was created after this number was used: it was lost, and created again.
local function made_after(start)
  return start > 0 and start < tonumber(progress('made') or 0)
end

-- The answer for an incomplete range: its first and last existing entry; if there is none, the last is below the first. MORE:
-- many foreign entries precede it, and some of them have been moved to the dead letters.
local function gone(start, finish)
  local finished, last = tonumber(progress('finished') or 0), tonumber(progress('last') or 0)
  if start > last then start = 0 end -- the queue was lost, and created again
  if made_after(start) then start = tonumber(progress('made')) end
  finished = math.max(finished, start > 0 and 0 or tonumber(progress('committed') or 0))
  start = math.max(start, finished)
  local first = first_behind(start, finish)
  if not first then
    local looked = #redis.call('XRANGE', STREAM, '(' .. id(start), id(finish), 'COUNT', 1) == 0
    return looked and {'GONE', start + 1, start} or {'MORE'}
  end
  return {'GONE', first, last_up_to(finish, first - 1)}
end

-- Moves the next portion of a range that is being set aside to the dead letters, and finishes it. An entry is in exactly one
-- place after each step. Returns whether the range is complete; otherwise repeat.
local function move_aside()
  local MOST, MOST_BYTES = 1000, 2 ^ 20
  local finish, last = tonumber(progress('asideTo')), look()
  local reached = math.max(tonumber(progress('aside')), tonumber(progress('finished') or 0))
  if reached >= finish then return true end
  largest = nil -- that of the partition before
  local why, failures = progress('asideWhy'), progress('asideFailures')
  local moved, size = 0, 0
  while reached < finish and moved < MOST and size < MOST_BYTES do
    local some = at_once(MOST - moved)
    local entries = redis.call('XRANGE', STREAM, '(' .. id(reached), id(finish), 'COUNT', some)
    for _, entry in ipairs(entries) do
      size = size + size_of(entry[2])
      if ours(entry, last) then
        local fields = entry[2]
        local headers = fields[8] and {'headers', fields[8]} or {}
        redis.call('XADD', DEAD, '*', 'offset', entry[1], 'key', fields[2], 'value', fields[4], 'timestamp', fields[6],
          'deliveries', failures, 'why', why, unpack(headers))
        redis.call('HINCRBY', PROGRESS, 'dead', 1)
      else
        set_foreign_aside(entry)
      end
      reached = number(entry[1])
    end
    moved = moved + #entries
    if #entries < some then reached = finish end
  end
  removed_in_all = removed_in_all + 10 * moved
  finish_up_to(reached, summary())
  return reached == finish
end

-- Logs a range, and before that finishes everything up to its start, which Spark has in its commit log. Returns the answer if the
-- range was not logged (GONE; ASIDE: it was set aside, or that has begun; MORE, as of `finish`), or nil; and the entry up to
-- which all may have been handed out before. `partly`: log it even if a pod has finished some of its entries.
local function log_range(start, finish, partly)
  look()
  local pending = summary()
  local logged, voided = progress('logged'), progress('voided')
  if tonumber(logged) == start and tonumber(progress('loggedTo')) == finish then return nil, progress('logSeen') end
  if tonumber(progress('aside')) == start and tonumber(progress('asideTo')) == finish then return {'ASIDE'} end
  local finished, last = tonumber(progress('finished') or 0), tonumber(progress('last') or 0)
  local same = not partly and tonumber(voided) == start and tonumber(progress('voidedTo')) == finish
  local spoiled = same and progress('spoiled')
  if start < finished or made_after(start) or finish < start or finish > last or spoiled then return gone(start, finish) end
  -- Each number after `committed` has an entry if none was finished singly, skipped, or removed by hand.
  local committed, done, length = tonumber(progress('committed') or 0), tonumber(progress('done') or 0), redis.call('XLEN', STREAM)
  local dense = done == committed and start >= committed
  local whole = dense and length >= last - committed
  local first = whole and start + 1 or first_behind(start, finish)
  if finish > start then
    local begins = whole or partly or not dense or first == start + 1
    local ends = #redis.call('XRANGE', STREAM, id(finish), id(finish)) > 0 -- a foreign entry may be counted in place of a missing one
    if not begins or not ends then return gone(start, finish) end
  end

  -- A query with other knowledge may have logged another range: that range was handed out.
  local seen = logged and void_range() or tonumber(progress('seen') or 0)
  if start > finished or committed < finished then
    local all = finish_up_to(start, pending)
    if not all and tonumber(progress('committed') or 0) < start then return {'MORE'} end
    pending, length = summary(), redis.call('XLEN', STREAM)
  end
  if finish == start then return nil, seen end
  if pending[1] > 0 then seen = math.max(seen, number(pending[3])) end
  local count = math.min(finish - (first or finish) + 1, length)
  redis.call('HSET', PROGRESS, 'logged', digits[start], 'loggedTo', digits[finish], 'logSeen', digits[seen], 'count', count,
    'seen', digits[seen])
  if logged or voided then redis.call('HDEL', PROGRESS, 'voided', 'voidedTo', 'spoiled') end
  known_progress = nil
  return nil, seen
end
