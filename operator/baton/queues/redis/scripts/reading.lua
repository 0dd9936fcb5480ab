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

-- Whoever is answered, the owner too, is recorded as it begins: from then on no earlier attempt of its evaluation is answered.
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
