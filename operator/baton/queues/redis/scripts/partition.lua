-- Functions on a partition that all scripts share. Included; never run by itself.
local OWNER, STREAM, PROGRESS, WAKE, REFUSED, SLOTS, SEQUENCES, DEAD, MARKS
-- Caches of the owner hash and of the progress, read once. Code that writes a cached field clears the cache.
local known_of_owner, known_progress
-- Selects the partition for all functions below.
local function begin_partition(...)
  OWNER, STREAM, PROGRESS, WAKE, REFUSED, SLOTS, SEQUENCES, DEAD, MARKS = ...
  known_of_owner, known_progress = nil, nil
end
begin_partition(unpack(KEYS, 1, 9))
-- One consumer in one consumer group: the fence decides which pod may read, so entries are never claimed.
local GROUP, CONSUMER = 'baton', 'owner'
local SEGMENT = STREAM:match('(%d+)$')

local HIGHEST = 2 ^ 53 - 1e9 -- highest entry number

-- A script reads at most MOST_AT_ONCE entries of up to SMALL bytes together.
local SMALL, MOST_AT_ONCE = 2 ^ 16, 32

-- Sizes of the largest entry are recorded above this; readers choose their page size by them (RedisPages.java).
local NOTED = 2 ^ 12

-- Bytes of entries between two marks.
local MARKED_EVERY = 2 ^ 20

local ID = '%d-' .. SEGMENT -- writes all digits; Lua's default number format has only 14
local OURS = '^(%d+)%-' .. SEGMENT .. '$'
local function id(number) return string.format(ID, number) end
local function number(entry_id) return tonumber(entry_id:match('^%d+')) end

local function of_owner()
  known_of_owner = known_of_owner or redis.call('HMGET', OWNER, 'uid', 'epoch', 'paused', 'process', 'maxRedeliveries',
    'maxDeliveredUnacked', 'served', 'left')
  return known_of_owner
end

-- The owner record: uid ('': no owner), epoch (0: never granted), paused, the process of that pod that reads singly, and nil if
-- the partition does not exist.
local function record()
  local fields = of_owner()
  return fields[1] or '', tonumber(fields[2] or 0), fields[3] == '1', fields[4], fields[1] or fields[5]
end

-- Returns the refusal of a caller that is not the owner at that epoch, or nil; and whether the partition is paused.
-- The process ('' or nil: any) must also be the one that began to read last: a pod whose container was restarted has a new
-- process, and of two processes with the same UID by mistake the newer one gets the partition.
-- The counter is best effort: a Redis that cannot write it still answers.
local function fence(caller, caller_epoch, process)
  local uid, epoch, paused, reads, made = record()
  local ours = caller ~= '' and caller == uid and tonumber(caller_epoch) == epoch
  local other = ours and reads and (process or '') ~= '' and process ~= reads
  if ours and not other then return nil, paused end
  if not made then return {'UNKNOWN'} end
  redis.pcall('INCR', REFUSED)
  return {'STALE', uid, epoch, paused and 1 or 0, other and 1 or 0}
end

-- A former owner's entries, (served, left], that this epoch had not handed out when the script began; nil without any.
local function unserved()
  local fields = of_owner()
  if fields[8] then return tonumber(fields[7]), tonumber(fields[8]) end
end

--@include history

-- The stream that takes entries of a slot, and the version of that record: the partition's own stream, a stage, or nil if the
-- slot is not accepted here. On a stage, entries wait until all earlier ones are finished at the partition that the slot comes
-- from.
local function stage(version, from) return (STREAM:gsub('stream:%d+$', 'stage:' .. version .. '.' .. from)) end
local function place(value)
  if not value then return nil, 0 end
  local version, from = value:match('^(%d+) ?(.*)$')
  if from == '' then return STREAM, tonumber(version) end
  if from == 'moved' then return nil, tonumber(version) end
  return stage(version, from), tonumber(version)
end

-- The current value of a field of the progress. The common fields are read together.
local FIELDS = {'last', 'waits', 'history', 'bytes', 'marked', 'committed', 'done', 'query', 'finished', 'logged', 'loggedTo', 'voided', 'made',
  'markedTo', 'seen', 'logSeen', 'largest'}
local PLACES = {}
for place, name in ipairs(FIELDS) do PLACES[name] = place end
local function progress(name)
  local place = PLACES[name]
  if not place then return redis.call('HGET', PROGRESS, name) end
  known_progress = known_progress or redis.call('HMGET', PROGRESS, unpack(FIELDS))
  return known_progress[place]
end

-- Removes the record of the logged range (logged.lua).
local function forget_range()
  redis.call('HDEL', PROGRESS, 'logged', 'loggedTo', 'count', 'logSeen', 'loans')
  known_progress = nil
end

-- The larger of `n` and the number of the last entry. Entries with foreign ids do not count.
local function at_least(n)
  local function beyond(from) return #redis.call('XRANGE', STREAM, '(' .. id(from), id(HIGHEST), 'COUNT', 1) > 0 end
  if not beyond(n) then return n end
  local step = 1
  while beyond(n + step) do n, step = n + step, 2 * step end
  while step > 1 do
    step = step / 2
    if beyond(n + step) then n = n + step end
  end
  return n + 1
end

-- Whether all entries in the stream are committed. Checked in the stream itself, as a wrong counter must not lead to skipped
-- entries.
local function nothing_left()
  local committed = tonumber(redis.call('HGET', PROGRESS, 'committed') or 0)
  return #redis.call('XRANGE', STREAM, '(' .. id(committed), '+', 'COUNT', 1) == 0
end

-- The number of unfinished entries up to `last`. If none of them exists any more, they vanished: counts them as lost.
local function left_to_do(last)
  local left = last - tonumber(redis.call('HGET', PROGRESS, 'done') or 0)
  if not nothing_left() then return left end
  if left > 0 then redis.call('HINCRBY', PROGRESS, 'lost', left) end
  return 0
end

-- Bytes of keys, values and headers of all added entries, and of those up to the last mark (nil: no mark). Set by look().
local added_bytes, marked

-- Called before entries are added or handed out. Returns the last added entry, and whether the owner waits for a wake-up.
-- In a new history, numbers of lost entries must not be used for other entries, and existing entries may have been handed out. So
-- numbering continues above all numbers ever used, and all earlier entries are marked as seen. The lost history may have started
-- here with the same last number, but earlier; so the microseconds since the start of the previous history are added (fewer
-- entries than that can have been added in it), and 1e9 more because the clocks of two servers may differ.
local function look()
  local fields = known_progress or redis.call('HMGET', PROGRESS, unpack(FIELDS, 1, 5))
  added_bytes, marked = tonumber(fields[4] or 0), tonumber(fields[5])
  local now_in, last = history(), tonumber(fields[1] or 0)
  if fields[3] == now_in then return last, fields[2] == '1' end
  local since = redis.call('HGET', PROGRESS, 'since')
  local clock = redis.call('TIME')
  local now = clock[1] * 1e6 + clock[2]
  local next = fields[1] and last + 1e9 + math.max(0, now - tonumber(since or math.min(last, now))) or now
  local left, seen = 0, last
  if not fields[1] then -- a new partition, or its progress was deleted
    left = redis.call('XLEN', STREAM)
    next = at_least(next)
    seen = left > 0 and next or 0
  else
    left = left_to_do(last)
  end
  if tonumber(redis.call('HGET', PROGRESS, 'staged') or 0) > 0 then redis.call('HSET', PROGRESS, 'suspect', '1') end
  redis.call('HSET', PROGRESS, 'history', now_in, 'since', now, 'last', next, 'seen', seen, 'done', next - left, 'waits', '1')
  if nothing_left() then
    redis.call('HSET', PROGRESS, 'committed', next)
    if not fields[1] then redis.call('HSET', PROGRESS, 'made', next) end -- earlier entries are lost
    forget_range() -- its entries are gone
  end
  known_progress = nil
  return next, true
end

-- The consumer group was deleted, usually together with the stream: creates both again, for the remaining entries.
local function make_again()
  local fields = redis.call('HMGET', PROGRESS, 'last', 'done', 'committed')
  local last, done, committed = tonumber(fields[1] or 0), tonumber(fields[2] or 0), tonumber(fields[3] or 0)
  local left = 0
  if redis.call('EXISTS', STREAM) == 1 then
    redis.call('XTRIM', STREAM, 'MINID', '=', id(committed + 1))
    redis.call('XGROUP', 'CREATE', STREAM, GROUP, id(committed))
    left = redis.call('XLEN', STREAM)
  else
    redis.call('XGROUP', 'CREATE', STREAM, GROUP, id(last), 'MKSTREAM')
    forget_range() -- its entries are gone
  end
  redis.call('HSET', PROGRESS, 'done', last - left)
  if left > 0 then redis.call('HSET', PROGRESS, 'seen', last) end
  if last - done > left then redis.call('HINCRBY', PROGRESS, 'lost', last - done - left) end
  redis.call('HDEL', OWNER, 'served', 'left', 'waiting')
  known_of_owner, known_progress = nil, nil
end

-- Removes finished entries up to this one, except for those that share a node of the stream with others. Bounded, as the script
-- blocks other clients. Returns whether all are removed.
local function trim(number)
  local NODES, TIMES = 1000, 5
  for _ = 1, TIMES do
    if redis.call('XTRIM', STREAM, 'MINID', '~', id(number + 1), 'LIMIT', NODES) == 0 then return true end
  end
  return false
end

-- The summary form of XPENDING.
local function summary()
  local found = redis.pcall('XPENDING', STREAM, GROUP)
  if not found.err then return found end
  if not found.err:find('NOGROUP') then redis.call('XPENDING', STREAM, GROUP) end -- the error, with its line
  make_again()
  return {0}
end

-- The number of unfinished entries that were delivered singly under the epoch in force. Entries of a former owner that wait to be
-- handed out are counted incrementally in `waiting`, as counting them here would take time in proportion to their number.
local function handed_out(pending)
  pending = pending or summary()
  local waiting = unserved() and redis.call('HGET', OWNER, 'waiting')
  return pending[1] - tonumber(waiting or 0)
end

-- The number of unfinished entries that were delivered singly under the epoch in force, or in a logged range. Both sets begin
-- with the first unfinished entry, so the smaller is a part of the larger.
local function outstanding(pending)
  return math.max(handed_out(pending), tonumber(redis.call('HGET', PROGRESS, 'count') or 0))
end
-- The number of entries that a hand-off waits for; -1 (IN_USE): none is outstanding, but the owner has not released the
-- partition.
local function in_use()
  local left = outstanding()
  return left == 0 and redis.call('HGET', OWNER, 'kept') and -1 or left
end

-- Finishes single entries by their ids. Each counts as done when it leaves the pending list, which happens once. A logged range
-- that contains one of them can no longer be read, as it would not have the same rows as before. Returns how many were finished.
local void_range
local function finish_singly(ids)
  local fields = redis.call('HMGET', PROGRESS, 'logged', 'loggedTo', 'voided', 'voidedTo')
  local from, to = tonumber(fields[1] or fields[3]), tonumber(fields[1] and fields[2] or fields[4])
  local within, others, done = {}, {}, 0
  for _, entry_id in ipairs(ids) do
    local where = from and number(entry_id) > from and number(entry_id) <= to and within or others
    where[#where + 1] = entry_id
  end
  if #others > 0 then done = redis.call('XACK', STREAM, GROUP, unpack(others)) end
  local of_range = #within > 0 and redis.call('XACK', STREAM, GROUP, unpack(within)) or 0
  if of_range > 0 then
    if fields[1] then void_range() end
    redis.call('HSET', PROGRESS, 'spoiled', '1')
    done = done + of_range
  end
  if done > 0 then redis.call('HINCRBY', PROGRESS, 'done', done) end
  known_progress = nil
  return done
end

-- The limits of the queue's spec, written by the operator: entries of the whole queue that one member may hold, and redeliveries
-- of one entry (0: no limit).
local function limits()
  local fields = of_owner()
  return tonumber(fields[6] or 10000), tonumber(fields[5] or 0)
end

-- Finishes an entry that cannot succeed or was handed out too often: moves it from the stream to the dead letters, if it still
-- exists.
local function set_aside(entry_id, deliveries, why)
  local entry = redis.call('XRANGE', STREAM, entry_id, entry_id)[1]
  if entry then
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    local headers = fields['h'] and {'headers', fields['h']} or {}
    redis.call('XADD', DEAD, '*', 'offset', entry_id, 'key', fields['k'], 'value', fields['v'], 'timestamp', fields['t'],
      'deliveries', deliveries, 'why', why, unpack(headers))
    redis.call('HINCRBY', PROGRESS, 'dead', 1)
  else
    redis.call('HINCRBY', PROGRESS, 'lost', 1)
  end
  local served, left = unserved()
  if left and number(entry_id) > served and number(entry_id) <= left then redis.call('HINCRBY', OWNER, 'waiting', -1) end
  finish_singly({entry_id})
  redis.call('XDEL', STREAM, entry_id)
end

-- Whether the fields of an entry are those that a Baton producer writes.
local function well_formed(fields)
  local whole = #fields == 6 or (#fields == 8 and fields[7] == 'h')
  if not whole or fields[1] ~= 'k' or fields[3] ~= 'v' or fields[5] ~= 't' then return false end
  return #fields[6] <= 16 and fields[6]:find('^%d+$') ~= nil
end

-- Whether a Baton producer added an entry. `last`: the last entry that one added.
local function ours(entry, last)
  local n = entry[1]:match(OURS)
  return n and tonumber(n) <= last and well_formed(entry[2])
end

-- Entries of an answer, as two texts: for each entry `id timestamp` and the lengths of key, value and headers ('' for none); and
-- all keys, values and headers, concatenated. Parsing many small texts would cost a client more than everything else.
-- `tell` adds an entry. It returns false and adds nothing if the total would exceed most_bytes, except for the first entry.
local about, texts, bytes = {}, {}, 0
local length = setmetatable({}, {__index = function(known, n) -- formatting numbers is slow, and there are few different ones
  known[n] = ' ' .. n
  return known[n]
end})
local function tell(entry, most_bytes)
  local fields, n = entry[2], #texts
  local key, value, headers = fields[2], fields[4], fields[8] or ''
  local size = bytes + #key + #value + #headers
  if n > 0 and size > most_bytes then return false end
  bytes = size
  texts[n + 1], texts[n + 2], texts[n + 3] = key, value, headers
  about[#about + 1] = entry[1] .. ' ' .. fields[6] .. length[#key] .. length[#value] .. length[#headers]
  return true
end
local function told() return table.concat(about, ' '), table.concat(texts) end

-- How many of `most` entries to read next. The server copies all of them, including those that exceed the limit, and serves no
-- other client meanwhile. So the number depends on the largest entry that may exist (`grown`).
local largest
local function at_once(most)
  if not largest then
    largest = math.max(SMALL, tonumber(redis.call('HGET', PROGRESS, 'largest') or 0))
  end
  return math.min(MOST_AT_ONCE, most, math.max(1, math.floor(SMALL * MOST_AT_ONCE / largest)))
end

local function size_of(fields)
  local size = 0
  for _, text in ipairs(fields) do size = size + #text end
  return size
end

-- Moves a foreign entry (XADD by hand) to the dead letters, as consumers cannot parse it. JSON takes the server 20 ms per
-- megabyte, so a large entry is shortened.
local removed_in_all = 0 -- cost of removals in entries; moving one to the dead letters counts as several
local function set_foreign_aside(entry)
  local MOST, FIELDS, BEGINNING = 2 ^ 20, 100, 1000
  local fields, size, why = entry[2], size_of(entry[2]), 'no producer of Baton added it: its fields, in JSON, are the value'
  if size > MOST then
    local cut = {}
    for i = 1, math.min(FIELDS, #fields) do cut[i] = fields[i]:sub(1, BEGINNING) end
    fields, why = cut, string.format('no producer of Baton added it, and it had %d bytes: the beginnings of its fields, in JSON', size)
  end
  removed_in_all = removed_in_all + 10 + math.min(size, MOST) / 50
  redis.call('XADD', DEAD, '*', 'offset', entry[1], 'key', '', 'value', cjson.encode(fields), 'timestamp', '',
    'deliveries', 0, 'why', why)
  redis.call('HINCRBY', PROGRESS, 'dead', 1)
  redis.call('XACK', STREAM, GROUP, entry[1])
  redis.call('XDEL', STREAM, entry[1])
end

-- The last entry that was handed out singly, or up to which everything was committed.
local function last_handed_out()
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', STREAM)) do
    local fields = {}
    for i = 1, #group, 2 do fields[group[i]] = group[i + 1] end
    if fields['name'] == GROUP then return number(fields['last-delivered-id']) end
  end
end

-- Continues numbering after the highest id that the stream ever had. If that id is above HIGHEST, starts a new stream once all
-- entries are finished. Returns the last number, or nil: not possible yet.
local function skip(last)
  local left = left_to_do(last)
  local top = redis.pcall('XADD', STREAM, '*', 'w', '') -- an error: the last id is the highest possible
  if type(top) == 'string' then redis.call('XDEL', STREAM, top) end
  local next = type(top) == 'string' and number(top) or HIGHEST
  if next < HIGHEST then
    redis.call('HSET', PROGRESS, 'last', next, 'done', next - left)
    if left == 0 then redis.call('HSET', PROGRESS, 'committed', next) end
    return next
  end
  if left > 0 then return nil end
  redis.call('DEL', STREAM)
  make_again()
  return last
end

-- Moves entries after the last one of a producer to the dead letters, and continues numbering after that one. Since Redis 7.2 a
-- stream's last id cannot be set below a deleted id, so there numbering continues after the moved entries. Returns the last
-- number, or nil: there are too many entries for one script, or unfinished entries block it.
local function clear_tail(last)
  local MOST, MOST_BYTES = 1000, 2 ^ 20
  local found, bytes, wanted = 0, 0, 1 -- entries may be large: choose each count by the sizes so far
  repeat
    local entries = redis.call('XRANGE', STREAM, '(' .. id(last), '+', 'COUNT', wanted)
    for _, entry in ipairs(entries) do
      bytes = bytes + size_of(entry[2])
      set_foreign_aside(entry)
    end
    found = found + #entries
    if #entries < wanted then break end
    if found >= MOST or bytes >= MOST_BYTES then return nil end
    wanted = math.max(1, math.min(2 * wanted, MOST - found, math.floor((MOST_BYTES - bytes) * found / math.max(1, bytes))))
  until false
  summary()
  local set = redis.pcall('XSETID', STREAM, id(last))
  if last_handed_out() > last then redis.call('XGROUP', 'SETID', STREAM, GROUP, id(last)) end
  if not set.err then return last end
  if not set.err:find('max_deleted_entry_id') then redis.call('XSETID', STREAM, id(last)) end -- the error, with its line
  return skip(last)
end

-- Wakes waiting readers by a separate stream, as a blocking read of the stream itself would also transfer its entries. Its ids
-- are `epoch-entry`, so that a reader does not miss entries that arrive between reading and waiting.
-- If the owner record or the progress was deleted, ids may be below the existing one; then the next possible id is used.
local function wake(epoch, last)
  local below = string.format('%s-%d', epoch, last)
  local added = redis.pcall('XADD', WAKE, 'MAXLEN', '=', 1, below, 'w', '')
  if type(added) == 'string' or not added.err then return end
  local top = added.err:find('smaller') and redis.call('XRANGE', WAKE, '-', '+', 'COUNT', 1)[1]
  if added.err:find('smaller') and not top then redis.call('DEL', WAKE) end -- waiting readers keep waiting
  redis.call('XADD', WAKE, 'MAXLEN', '=', 1, top and top[1]:match('^%d+') .. '-*' or below, 'w', '') -- or the error
end

-- Marks the number of bytes up to this entry. Removes older marks of finished entries except for the last one, a limited number
-- at a time.
local function mark(last)
  local text, MOST = string.format('%d', added_bytes), 100
  local added = redis.pcall('XADD', MARKS, id(last), 's', text)
  if type(added) == 'table' and added.err then -- the progress was deleted, and numbers are lower now
    redis.call('DEL', MARKS)
    redis.call('XADD', MARKS, id(last), 's', text)
  end
  marked = added_bytes
  redis.call('HSET', PROGRESS, 'marked', marked, 'markedTo', last)
  local done = tonumber(redis.call('HGET', PROGRESS, 'committed') or 0)
  local pending = redis.pcall('XPENDING', STREAM, GROUP)
  if not pending.err then done = math.max(done, pending[1] > 0 and number(pending[2]) - 1 or last_handed_out()) end
  local behind = redis.call('XRANGE', MARKS, '-', id(done), 'COUNT', MOST)
  if #behind > 1 then redis.call('XTRIM', MARKS, 'MINID', '=', behind[#behind][1]) end
end

local largest_added = 0

-- Adds an entry after the last one. Returns its number, or nil: many foreign entries have to be removed first.
local function append(last, ...)
  local added = redis.pcall('XADD', STREAM, 'NOMKSTREAM', id(last + 1), ...)
  if not added then -- the stream was deleted
    make_again()
    added = redis.pcall('XADD', STREAM, id(last + 1), ...)
  end
  if type(added) == 'table' and added.err then
    local behind = added.err:find('smaller') or added.err:find('exhausted')
    if not behind then redis.call('XADD', STREAM, id(last + 1), 'k', '', 'v', '', 't', '') end -- the error
    last = clear_tail(last)
    if not last then return nil end
    redis.call('XADD', STREAM, id(last + 1), ...)
  end
  local _, key, _, value, _, _, _, headers = ...
  local size = #key + #value + (headers and #headers or 0)
  if size > largest_added then largest_added = size end
  if not marked or (size >= MARKED_EVERY and marked < added_bytes) then mark(last) end -- a large entry gets a mark on both sides
  added_bytes = added_bytes + size
  if added_bytes - marked >= MARKED_EVERY then mark(last + 1) end
  return last + 1
end

-- Moves entries from a stage to the end of the partition's stream, up to a number of entries or bytes.
-- Returns the last entry, and how many entries left the stage.
local function follow(from, last, most, most_bytes)
  local first, moved, bytes, stuck = last, 0, 0, false
  local AT_ONCE, wanted = 50, 1 -- entries may be large: choose each count by the sizes so far
  while moved < most and bytes < most_bytes and not stuck do
    local entries = redis.call('XRANGE', from, '-', '+', 'COUNT', wanted)
    local gone = {}
    for _, entry in ipairs(entries) do
      if not well_formed(entry[2]) then
        set_foreign_aside(entry)
      else
        local now = append(last, unpack(entry[2]))
        stuck = not now
        if stuck then break end
        last = now
        for _, text in ipairs(entry[2]) do bytes = bytes + #text end
      end
      gone[#gone + 1] = entry[1]
      if bytes >= most_bytes then break end
    end
    if #gone > 0 then redis.call('XDEL', from, unpack(gone)) end
    moved = moved + #gone
    if #entries < wanted then break end
    local fit = math.floor((most_bytes - bytes) * moved / math.max(1, bytes))
    wanted = math.max(1, math.min(AT_ONCE, 2 * wanted, most - moved, fit))
  end
  if moved > 0 then redis.call('HINCRBY', PROGRESS, 'staged', -moved) end
  -- An earlier history may have moved and handed out the same entries, and the record of that may be lost.
  if last > first and redis.call('HGET', PROGRESS, 'suspect') then redis.call('HSET', PROGRESS, 'seen', last) end
  return last, moved
end

-- Records that entries up to this one have been added, and the size of the largest existing entry (if not small), which readers
-- must know in advance. Entries after `largestAt` have at most half of that size (`shrunk`).
local function grown(last, waits)
  if largest_added > NOTED then
    local known = tonumber(redis.call('HGET', PROGRESS, 'largest') or 0)
    if 2 * largest_added > known then
      redis.call('HSET', PROGRESS, 'largest', math.max(known, largest_added), 'largestAt', last)
    end
  end
  if waits then
    redis.call('HSET', PROGRESS, 'last', last, 'bytes', added_bytes, 'waits', '0')
    wake(redis.call('HGET', OWNER, 'epoch') or 0, last)
  else
    redis.call('HSET', PROGRESS, 'last', last, 'bytes', added_bytes)
  end
end

-- Records that the owner has read everything, so that the next added entry wakes it.
local function sleep(waits)
  if waits ~= '1' then redis.call('HSET', PROGRESS, 'waits', '1') end
end

-- Voids the logged range, if there is one: it can no longer be read, and its entries may have been handed out. Returns the entry
-- up to which all may have been handed out before, and whether the owner waits.
function void_range()
  local fields = redis.call('HMGET', PROGRESS, 'loggedTo', 'seen', 'waits', 'logged')
  local seen = tonumber(fields[2] or 0)
  if fields[4] then
    seen = math.max(tonumber(fields[1]), seen)
    forget_range()
    redis.call('HSET', PROGRESS, 'seen', seen, 'voided', fields[4], 'voidedTo', fields[1])
    redis.call('HDEL', PROGRESS, 'spoiled')
    known_progress = nil
  end
  return seen, fields[3]
end
