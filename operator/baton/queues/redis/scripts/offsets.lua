-- Scripts that read and set offsets, and list dead letters.

--@script offsets
#!lua flags=no-writes
--@include partition
--@include logged
-- Reads the offsets of partitions. Writes nothing.
-- KEYS: the keys of a partition, in the order in which every script takes them, with # instead of its number. ARGV: the
-- partitions.
-- Answer for each: the first unfinished entry, the next number, the number of unfinished entries, how many of them were handed
-- out, the age of the first of them in ms ('': not known), how many vanished unfinished and were not counted before, the oldest
-- that was handed out ('': none), and how often; an empty array if the partition does not exist. After many foreign entries the
-- search for the first stops, as in `bounds`. A script that has read much data answers for fewer partitions; ask again for the
-- others.
local function where()
  if unmade() then return {} end
  local committed, last = done_up_to(), tonumber(progress('last') or 0)
  local first, oldest = first_behind(committed, last, true)
  if not first then
    first = (#redis.call('XRANGE', STREAM, '(' .. id(committed), id(last), 'COUNT', 1) > 0 and committed or last) + 1
  end
  local left, length = last - tonumber(progress('done') or 0), redis.call('XLEN', STREAM)
  local lag = math.min(left, length, last + 1 - first) + tonumber(progress('staged') or 0)
  local pending = redis.pcall('XPENDING', STREAM, GROUP)
  local held = math.max(pending.err and 0 or pending[1], tonumber(redis.call('HGET', PROGRESS, 'count') or 0))
  local clock = redis.call('TIME')
  local age = oldest and math.max(0, math.floor(clock[1] * 1000 + clock[2] / 1000 - tonumber(oldest[2][6])))
  local head = not pending.err and redis.call('XPENDING', STREAM, GROUP, '-', '+', 1)[1] or {'', '', 0, 0}
  return {first, last + 1, lag, held, age or '', math.max(0, left - length), head[1], head[4]}
end
local MOST_BYTES, answers = 2 ^ 21, {}
for nth, partition in ipairs(ARGV) do
  if looked_at > MOST_BYTES then break end
  local keys = {}
  for n, name in ipairs(KEYS) do keys[n] = name:gsub('#', partition) end
  begin_partition(unpack(keys, 1, 9))
  answers[nth] = where()
end
return answers

--@script reach
#!lua flags=no-writes
--@include partition
--@include logged
-- Finds the first entry that was sent at some time or later, in portions. ARGV: the entry after which to begin ('': all finished
-- ones), the number to end before, milliseconds since 1970 ('': no time).
-- Answer: the number that was reached, the number of entries before it, and the entry after which to continue ('': complete).
--
-- Entries are read one by one, as their times may not be in order: clocks are set back, and entries come from other partitions.
local MOST, MOST_BYTES = 1000, 2 ^ 20
local behind, finish, since = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if behind == '' then behind = id(done_up_to()) end
local last, passed, looked, bytes = tonumber(progress('last') or 0), 0, 0, 0
while looked < MOST and bytes < MOST_BYTES do
  local some = at_once(MOST - looked)
  local entries = redis.call('XRANGE', STREAM, '(' .. behind, '(' .. id(finish), 'COUNT', some)
  for _, entry in ipairs(entries) do
    looked, bytes, behind = looked + 1, bytes + size_of(entry[2]), entry[1]
    if ours(entry, last) then
      if since and tonumber(entry[2][6]) >= since then return {number(entry[1]), passed, ''} end
      passed = passed + 1
    end
  end
  if #entries < some then return {finish, passed, ''} end
end
return {finish, passed, behind}

--@script skip
#!lua flags=allow-oom
--@include partition
--@include logged
-- Finishes all entries before an entry, unread, in a partition without an owner. ARGV: the highest epoch of the partition in the
-- ledger, the entry's number.
-- The epoch in force stays, and is paused: the last owner may still acknowledge its entries, but not read. The next grant has a
-- higher epoch. A Spark query that reads a range is fenced, as by a later query.
-- Answer: OK; MORE: repeat to continue; GRANTED: the partition was granted at a higher epoch; OUTSIDE: no such number; UNKNOWN:
-- no such partition.
if unmade() then return 'UNKNOWN' end
local _, epoch = record()
if epoch > tonumber(ARGV[1]) then return 'GRANTED' end
local last, offset = look(), tonumber(ARGV[2])
if offset - 1 > last or offset <= done_up_to() then return 'OUTSIDE' end
redis.call('HSET', OWNER, 'paused', '1', 'within', '')
if progress('logged') then fence_query(tonumber(progress('query') or 0) + 1) end
return finish_up_to(offset - 1, summary()) and 'OK' or 'MORE'

--@script letters
#!lua flags=no-writes
--@include partition
-- Lists a page of dead letters, without their values. ARGV: the first id, the last one, how many, and the limit of a text in
-- bytes.
-- Answer for each: id, offset, key, bytes of the key, bytes of the value, timestamp, deliveries, and why.
local MOST_BYTES = 2 ^ 20 -- reading copies whole letters while the server serves no other client, so a page may have fewer
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
