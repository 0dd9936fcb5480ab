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
local fields = redis.call('HMGET', PROGRESS, 'logged', 'loggedTo', 'loans', 'voided', 'voidedTo')
local there = redis.call('EXISTS', STREAM) == 1
if not there or tonumber(fields[1]) ~= start or tonumber(fields[2]) ~= finish then
  if tonumber(fields[4]) == start and tonumber(fields[5]) == finish then return {'UNLOGGED'} end
  if log_range(start, finish) then return {'UNLOGGED'} end
  fields[3] = nil
end

-- Whoever is answered, the owner too, is recorded as it begins: from then on no earlier attempt of its evaluation is answered.
local loans = fields[3] and cjson.decode(fields[3]) or {}
local known = loans[evaluation]
if known and (attempt < known[1] or (attempt == known[1] and ARGV[8] ~= known[2])) then
  redis.pcall('INCR', REFUSED)
  return {'LENT', string.format('%d', known[1]), known[2]}
end
if not known or attempt > known[1] then
  local MOST, evaluations, oldest = 32, 0, nil
  for name, loan in pairs(loans) do
    evaluations = evaluations + 1
    if not oldest or loan[3] < loans[oldest][3] then oldest = name end
  end
  local nth = known and known[3] or 1
  if not known then
    for _, loan in pairs(loans) do nth = math.max(nth, loan[3] + 1) end
    if evaluations >= MOST then loans[oldest] = nil end -- one that began long before: Spark has a few at a time
  end
  loans[evaluation] = {attempt, ARGV[8], nth}
  redis.call('HSET', PROGRESS, 'loans', cjson.encode(loans))
end
local uid, epoch = record()
local owner = ARGV[2] ~= '' and ARGV[2] == uid and tonumber(ARGV[3]) == epoch
return {'OK', owner and 'owner' or 'lent'}
