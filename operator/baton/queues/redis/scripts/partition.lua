-- What every script knows of its partition. Included; never run by itself.
local OWNER, STREAM, PROGRESS, WAKE, REFUSED, SLOTS, SEQUENCES, DEAD, MARKS
-- What is known of its owner, and of its progress: asked for once. Who writes what may be known forgets it.
local known_of_owner, known_progress
-- Which partition is spoken of from here on.
local function begin_partition(...)
  OWNER, STREAM, PROGRESS, WAKE, REFUSED, SLOTS, SEQUENCES, DEAD, MARKS = ...
  known_of_owner, known_progress = nil, nil
end
begin_partition(unpack(KEYS, 1, 9))
-- One consumer in one consumer group: who may read is decided by the fence, so nothing is ever claimed.
local GROUP, CONSUMER = 'baton', 'owner'
local SEGMENT = STREAM:match('(%d+)$')

local HIGHEST = 2 ^ 53 - 1e9 -- of the numbers of entries

-- So many entries, of so many bytes each: what a script looks at together.
local SMALL, MOST_AT_ONCE = 2 ^ 16, 32

-- The size of the largest entry is noted where it is above this: readers' pages go by it (RedisPages.java).
local NOTED = 2 ^ 12

-- After so many bytes of entries it is marked how many there have been.
local MARKED_EVERY = 2 ^ 20

local ID = '%d-' .. SEGMENT -- all digits; Lua's own way to write a number ends with 14
local OURS = '^(%d+)%-' .. SEGMENT .. '$'
local function id(number) return string.format(ID, number) end
local function number(entry_id) return tonumber(entry_id:match('^%d+')) end

local function of_owner()
  known_of_owner = known_of_owner or redis.call('HMGET', OWNER, 'uid', 'epoch', 'paused', 'process', 'maxRedeliveries',
    'maxDeliveredUnacked', 'served', 'left')
  return known_of_owner
end

-- The owner record: uid ('': no owner), epoch (0: never granted), paused, which process of that pod reads it singly, and nil where
-- there is no such partition.
local function record()
  local fields = of_owner()
  return fields[1] or '', tonumber(fields[2] or 0), fields[3] == '1', fields[4], fields[1] or fields[5]
end

-- The answer to a caller who is not the owner at that epoch, or nil; and whether the partition is paused.
-- A process ('' or nil: any) must also be the one that began to read last: a pod whose container was restarted has one, and where
-- two have the same UID by mistake the newer has the partition.
-- The count is only a count: a Redis that cannot write it still answers.
local function fence(caller, caller_epoch, process)
  local uid, epoch, paused, reads, made = record()
  local ours = caller ~= '' and caller == uid and tonumber(caller_epoch) == epoch
  local other = ours and reads and (process or '') ~= '' and process ~= reads
  if ours and not other then return nil, paused end
  if not made then return {'UNKNOWN'} end
  redis.pcall('INCR', REFUSED)
  return {'STALE', uid, epoch, paused and 1 or 0, other and 1 or 0}
end

-- A former owner's entries, (served, left], that this epoch had not handed out when the script began; nil where there were none.
local function unserved()
  local fields = of_owner()
  if fields[8] then return tonumber(fields[7]), tonumber(fields[8]) end
end

-- The history that the server is in: another one after a restart and after a failover. What was written last before it may be gone.
-- Asked for once: to find it in the answer takes longer than most commands.
local known_history
local function history()
  known_history = known_history or redis.call('INFO', 'replication'):match('master_replid:(%w+)')
  return known_history
end

-- Where entries of a slot go: to the partition's own stream, to a stage, or nowhere (nil), for the slot is not accepted here; and
-- the version at which that was said. On a stage they wait until what came before them is done at the partition they come from.
local function stage(version, from) return (STREAM:gsub('stream:%d+$', 'stage:' .. version .. '.' .. from)) end
local function place(value)
  if not value then return nil, 0 end
  local version, from = value:match('^(%d+) ?(.*)$')
  if from == '' then return STREAM, tonumber(version) end
  if from == 'moved' then return nil, tonumber(version) end
  return stage(version, from), tonumber(version)
end

-- A field of the progress, as it is now. Those that are mostly needed are asked for together.
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

-- The range that is logged (logged.lua) is logged no more.
local function forget_range()
  redis.call('HDEL', PROGRESS, 'logged', 'loggedTo', 'count', 'logSeen', 'loans')
  known_progress = nil
end

-- A number, or that of the last entry where this is ahead of it. Entries with foreign ids do not count.
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

-- Whether nothing is to be done: all that is in the stream was committed. That is seen there, for no count may make up its mind that
-- entries are passed over.
local function nothing_left()
  local committed = tonumber(redis.call('HGET', PROGRESS, 'committed') or 0)
  return #redis.call('XRANGE', STREAM, '(' .. id(committed), '+', 'COUNT', 1) == 0
end

-- Entries up to this one that are not finished with. Where none is there any more, those that were not vanished, and are counted.
local function left_to_do(last)
  local left = last - tonumber(redis.call('HGET', PROGRESS, 'done') or 0)
  if not nothing_left() then return left end
  if left > 0 then redis.call('HINCRBY', PROGRESS, 'lost', left) end
  return 0
end

-- Bytes of keys, values and headers of all that was added, and of what was added up to the last mark (nil: there is none). Known
-- once one has looked.
local added_bytes, marked

-- Before entries are added or handed out: the last one that was added, and whether the owner waits to be woken.
-- In a new history the entries that are lost must not give their numbers to others, and those that are here may have been handed
-- out. So the numbers go on above all that were ever given, and everything before is marked. What is lost may have begun here as
-- well, with the same last number, but earlier: so the time since the history before began counts (in microseconds; within one of
-- them no two entries are added). And 1e9 more, for clocks of two servers may differ.
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
  if not fields[1] then -- this record was deleted, or it is a new partition
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
    if not fields[1] then redis.call('HSET', PROGRESS, 'made', next) end -- what was here before is lost
    forget_range() -- its entries are gone
  end
  known_progress = nil
  return next, true
end

-- The group was deleted, and mostly the stream too: makes both again, for what is left.
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

-- Removes entries up to this one that are finished with, but for those that share a node of the stream with others: so many at a time,
-- for the server serves no other client meanwhile. Answer: whether that was all.
local function trim(number)
  local NODES, TIMES = 1000, 5
  for _ = 1, TIMES do
    if redis.call('XTRIM', STREAM, 'MINID', '~', id(number + 1), 'LIMIT', NODES) == 0 then return true end
  end
  return false
end

-- What is pending, as XPENDING sums it up.
local function summary()
  local found = redis.pcall('XPENDING', STREAM, GROUP)
  if not found.err then return found end
  if not found.err:find('NOGROUP') then redis.call('XPENDING', STREAM, GROUP) end -- the error, with its line
  make_again()
  return {0}
end

-- Delivered singly under the epoch in force, and not finished with. The entries of a former owner that wait to be handed out
-- are counted when they are left and when they go, for to count them here would take as long as there are many.
local function handed_out(pending)
  pending = pending or summary()
  local waiting = unserved() and redis.call('HGET', OWNER, 'waiting')
  return pending[1] - tonumber(waiting or 0)
end

-- Delivered singly under the epoch in force, or in a logged range, and not finished with. Both begin with the first entry that is to
-- be done, so the smaller of them is a part of the other.
local function outstanding(pending)
  return math.max(handed_out(pending), tonumber(redis.call('HGET', PROGRESS, 'count') or 0))
end
-- What a hand-off waits for; -1 (IN_USE): nothing is outstanding, and the owner has not let go yet.
local function in_use()
  local left = outstanding()
  return left == 0 and redis.call('HGET', OWNER, 'kept') and -1 or left
end

-- Finishes with single entries, by their ids: each counts as done when it leaves what is pending, which it does once. A logged range
-- with one of them cannot be read any more: it would not have the same rows as before. Answer: how many there were.
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

-- What the queue's spec allows (the operator writes it here): the entries that one member may hold of the whole queue, and the
-- redeliveries of one entry; 0: any number.
local function limits()
  local fields = of_owner()
  return tonumber(fields[6] or 10000), tonumber(fields[5] or 0)
end

-- Finishes with an entry that was handed out too often: it goes from the stream to the dead letters, or nowhere.
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

-- Whether the fields of an entry are those that a producer of Baton's writes.
local function well_formed(fields)
  local whole = #fields == 6 or (#fields == 8 and fields[7] == 'h')
  if not whole or fields[1] ~= 'k' or fields[3] ~= 'v' or fields[5] ~= 't' then return false end
  return #fields[6] <= 16 and fields[6]:find('^%d+$') ~= nil
end

-- Whether a producer of Baton's added an entry. `last`: the last that one did.
local function ours(entry, last)
  local n = entry[1]:match(OURS)
  return n and tonumber(n) <= last and well_formed(entry[2])
end

-- Entries that are answered, as two texts: of each `id timestamp` and how long its key, value and headers ('' for none) are; and
-- these, without anything between them. To take many small texts apart costs a client more than all else that it does with them.
-- `tell` answers false, and adds nothing, where that would be more than so many bytes; for the first entry it never is.
local about, texts, bytes = {}, {}, 0
local length = setmetatable({}, {__index = function(known, n) -- a number takes long to write, and few are needed
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

-- How many entries are looked at next, of so many: the server copies each of them, also those that there is no room for, and
-- serves no other client meanwhile. So it follows from the largest that may be there (`grown`).
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

-- A foreign entry (XADD by hand) goes to the dead letters: no consumer could make sense of it. JSON takes the server 20 ms
-- for each megabyte, so of a large one not all is kept.
local removed_in_all = 0 -- entries; one that goes to the dead letters counts as many as take the server as long
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

-- The last entry that was handed out singly, or that everything up to was committed.
local function last_handed_out()
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', STREAM)) do
    local fields = {}
    for i = 1, #group, 2 do fields[group[i]] = group[i + 1] end
    if fields['name'] == GROUP then return number(fields['last-delivered-id']) end
  end
end

-- Lets the numbers go on behind the highest id that the stream ever had; where that is beyond all numbers, as soon as there is
-- nothing to do, in a new stream. Answer: the last number now, or nil: not yet.
local function skip(last)
  local left = left_to_do(last)
  local top = redis.pcall('XADD', STREAM, '*', 'w', '') -- an error: it is the highest that there is
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

-- Sets aside what stands beyond the last entry of a producer, and lets the numbers go on behind that one; since Redis 7.2, which
-- lets no stream's last id fall below one that was deleted, behind what was set aside. Answer: the last number now, or nil: there
-- is more than one script should take upon itself, or something to do first.
local function clear_tail(last)
  local MOST, MOST_BYTES = 1000, 2 ^ 20
  local found, bytes, wanted = 0, 0, 1 -- they may be large: how many are read follows from those before
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

-- Wakes who waits. A stream carries this, and not the entries themselves: a blocking read of those would read them too. Its ids are
-- the epoch, and within an epoch the last entry, so that no reader misses what comes between reading and waiting.
-- Where the owner record or the last entry was deleted, they are below what was there: the next id then wakes as well.
local function wake(epoch, last)
  local below = string.format('%s-%d', epoch, last)
  local added = redis.pcall('XADD', WAKE, 'MAXLEN', '=', 1, below, 'w', '')
  if type(added) == 'string' or not added.err then return end
  local top = added.err:find('smaller') and redis.call('XRANGE', WAKE, '-', '+', 'COUNT', 1)[1]
  if added.err:find('smaller') and not top then redis.call('DEL', WAKE) end -- waiting readers go on waiting
  redis.call('XADD', WAKE, 'MAXLEN', '=', 1, top and top[1]:match('^%d+') .. '-*' or below, 'w', '') -- or the error
end

-- Marks how many bytes there are up to this entry. Marks that are behind all that is still to be done are removed, but for the last
-- of them, so many at a time.
local function mark(last)
  local text, MOST = string.format('%d', added_bytes), 100
  local added = redis.pcall('XADD', MARKS, id(last), 's', text)
  if type(added) == 'table' and added.err then -- the record of the numbers was deleted, and they are lower now
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

-- Adds an entry behind the last one. Answer: its number, or nil: many foreign entries stand in the way.
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
  if not marked or (size >= MARKED_EVERY and marked < added_bytes) then mark(last) end -- a large one is between two marks
  added_bytes = added_bytes + size
  if added_bytes - marked >= MARKED_EVERY then mark(last + 1) end
  return last + 1
end

-- Moves entries from a stage behind the partition's own: so many, or what has so many bytes.
-- Answer: the last entry now, and how many have gone from the stage.
local function follow(from, last, most, most_bytes)
  local first, moved, bytes, stuck = last, 0, 0, false
  local AT_ONCE, wanted = 50, 1 -- entries may be large: how many are read follows from those before
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
  -- The history in which they followed before may be lost, and with it that they were handed out.
  if last > first and redis.call('HGET', PROGRESS, 'suspect') then redis.call('HSET', PROGRESS, 'seen', last) end
  return last, moved
end

-- Entries up to this one have been added. How large the largest is that is still there, who reads must know before; of small ones it
-- is passed over. Behind `largestAt` all have half of that at most (`shrunk`).
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

-- The owner has read everything: the next entry that is added wakes it.
local function sleep(waits)
  if waits ~= '1' then redis.call('HSET', PROGRESS, 'waits', '1') end
end

-- Where a range is logged, it cannot be read any more: what is in it may have been handed out. Answer: entries up to which all may
-- have been handed out before, and whether the owner waits.
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
