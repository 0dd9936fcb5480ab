# ruff: noqa: E501 -- a line of source is quoted as it stands
"""How a topic of Kafka is shared out and read: its rules, each broken in one place."""

from tests.mutation.mutation import Mutation

_KAFKA = "queues/kafka/"
_OFFSETS = "unit/queues/kafka/test_finished_offsets.py"
_MESSAGES = "unit/queues/kafka/test_message_entries.py"
_POSITION = "unit/queues/kafka/test_read_position.py"
_RECORD = "unit/queues/kafka/test_record.py"
_LOG = "unit/queues/kafka/test_positions_in_log.py"
_TOLD = "unit/queues/kafka/test_announcement.py"
_PENDING = "unit/queues/kafka/test_pending_outputs.py"
_BATCHES = "unit/queues/kafka/test_output_batches.py"
_COMMITS = "unit/queues/kafka/test_owner_commits.py"
_BLOCKS = "unit/consumer/test_transaction.py"
_TOGETHER = "unit/queues/kafka/test_asked_together.py"
_FENCE = "integration/kafka/test_fence.py"
_READING = "integration/kafka/test_reading.py"
_RANGES = "integration/kafka/test_ranges.py"

KAFKA = (
    Mutation("commits", "commit what is behind an entry that is not finished", _KAFKA + "finished_offsets.py", _OFFSETS, "if offset not in done), len(out))", "if offset not in done), len(out)) or 1"),
    Mutation("commits", "forget what was finished out of order", _KAFKA + "finished_offsets.py", _OFFSETS, "        done.update(filter(self.is_out, offsets))", "        pass"),
    Mutation("commits", "leave uncommitted what was finished out of order", _KAFKA + "finished_offsets.py", _OFFSETS, "        self._go_over(next(", "        _ = (next("),
    Mutation("commits", "finish what was not handed out", _KAFKA + "finished_offsets.py", _OFFSETS, "done.update(filter(self.is_out, offsets))", "done.update(offsets)"),
    Mutation("commits", "take any offsets for the next ones", _KAFKA + "finished_offsets.py", _OFFSETS, "out[: len(offsets)] == offsets:", "len(out) >= len(offsets):"),
    Mutation("commits", "mark one message too many as handed out before", _KAFKA + "message_entries.py", _MESSAGES, "offset < again,", "offset <= again,"),
    Mutation("commits", "pass over what is in hand for marks of transactions", _KAFKA + "finished_offsets.py", _OFFSETS, "        if not self._out:\n            self.offset = max", "        if True:\n            self.offset = max"),
    Mutation("commits", "wait for ever behind marks of transactions", _KAFKA + "finished_offsets.py", _OFFSETS, "            self.offset = max(self.offset, end)", "            pass"),
    Mutation("commits", "go back for marks of transactions", _KAFKA + "finished_offsets.py", _OFFSETS, "            self.offset = max(self.offset, end)", "            self.offset = end"),
    Mutation("record", "take the text of others for a record", _KAFKA + "record.py", _RECORD, " and fields.get(\"baton\") == _VERSION", ""),
    Mutation("record", "read what clients in C put behind it", _KAFKA + "record.py", _RECORD, "text.partition(\"\\0\")[0]", "text"),
    Mutation("record", "take true for a number", _KAFKA + "record.py", _RECORD, " and not isinstance(one, bool) and 0 <= one", " and 0 <= one"),
    Mutation("record", "take what is below zero for a number", _KAFKA + "record.py", _RECORD, "0 <= one < 2**63", "one < 2**63"),
    Mutation("record", "take a number for an epoch that none comes after", _KAFKA + "record.py", _RECORD, " or max(fields[\"epoch\"], more[-1]) >= _BOUND", ""),
    Mutation("record", "take any list for a token", _KAFKA + "record.py", _RECORD, " and len(value) == count and", " and"),
    Mutation("record", "write down all failures", _KAFKA + "record.py", _RECORD, "sorted(self.tries.items())[:_MOST_TRIES]", "sorted(self.tries.items())"),
    Mutation("record", "mark nothing that a process left", _KAFKA + "record.py", _RECORD, "        left_behind = bool(self.reader) and not self.released", "        left_behind = False"),
    Mutation("record", "mark what was let go", _KAFKA + "record.py", _RECORD, "bool(self.reader) and not self.released", "bool(self.reader)"),
    Mutation("record", "mark what nobody read", _KAFKA + "record.py", _RECORD, "bool(self.reader) and not self.released", "not self.released"),
    Mutation("record", "mark beyond the end of the log", _KAFKA + "record.py", _RECORD, "min(self.reserved, end) if", "self.reserved if"),
    Mutation("record", "forget what an owner before had", _KAFKA + "record.py", _RECORD, "max(self.again, min(self.reserved, end) if left_behind or self.query else 0)", "min(self.reserved, end) if left_behind or self.query else self.again"),
    Mutation("record", "keep tries of what is finished", _KAFKA + "record.py", _RECORD, "for entry, count in self.tries.items() if entry >= offset}", "for entry, count in self.tries.items()}"),
    Mutation("record", "keep a mark of what is finished", _KAFKA + "record.py", _RECORD, "self.again if offset < self.again else 0", "self.again"),
    Mutation("position", "hand out many where one may end the process", _KAFKA + "read_position.py", _POSITION, "            alone = 0 if self.progress.unfinished else 1\n", "            alone = 10\n"),
    Mutation("position", "hand out the next while one is in hand that may end the process", _KAFKA + "read_position.py", _POSITION, "0 if self.progress.unfinished else 1", "1"),
    Mutation("position", "hand out one by one for ever", _KAFKA + "read_position.py", _POSITION, " and self.progress.offset < self.record.again", ""),
    Mutation("position", "hand out one by one where tries are not counted", _KAFKA + "read_position.py", _POSITION, "bool(self.record.most) and self.progress.offset", "self.progress.offset"),
    Mutation("position", "hand out more than a pod may have", _KAFKA + "read_position.py", _POSITION, "max(0, self.record.unacked - in_hand) if self.record.unacked else None", "None"),
    Mutation("position", "hand out less than nothing", _KAFKA + "read_position.py", _POSITION, "max(0, self.record.unacked - in_hand)", "self.record.unacked - in_hand"),
    Mutation("position", "reserve nothing", _KAFKA + "read_position.py", _POSITION, "self.progress.end + ahead, upto)", "upto)"),
    Mutation("position", "reserve less than was reserved", _KAFKA + "read_position.py", _POSITION, "max(self.record.reserved, self.progress.end", "max(0, self.progress.end"),
    Mutation("position", "hand out what is not reserved", _KAFKA + "read_position.py", _POSITION, "self.progress.end + ahead, upto)", "self.progress.end + ahead)"),
    Mutation("position", "reserve as little for who hands out much", _KAFKA + "read_position.py", _POSITION, "max(AHEAD, 2 * (self.progress.end - self.recorded))", "AHEAD"),
    Mutation("position", "reserve more from record to record", _KAFKA + "read_position.py", _POSITION, "asked_at, asked_at, self.progress.end\n", "asked_at, asked_at, self.recorded\n"),
    Mutation("position", "let go of what is in hand", _KAFKA + "read_position.py", _POSITION, "released=not self.progress.unfinished", "released=True"),
    Mutation("position", "leave reserved what was not handed out", _KAFKA + "read_position.py", _POSITION, "reserved=self.progress.end, released", "reserved=self.record.reserved, released"),
    Mutation("position", "count no failure", _KAFKA + "read_position.py", _POSITION, "self.record.tries.get(offset, 0) + 1}", "self.record.tries.get(offset, 0)}"),
    Mutation("position", "set aside one try too early", _KAFKA + "read_position.py", _POSITION, ".get(offset, 0) > self.record.most", ".get(offset, 0) >= self.record.most"),
    Mutation("position", "count no try where a process ended without a word", _KAFKA + "read_position.py", _POSITION, "    if offset < again:\n", "    if False:\n"),
    Mutation("position", "keep what an earlier process let go", _KAFKA + "read_position.py", _POSITION, "tries=tries, released=False)", "tries=tries)"),
    Mutation("lag", "count what retention has deleted as left", _KAFKA + "positions_in_log.py", _LOG, "max(at[number], begins.get(number, 0))", "at[number]"),
    Mutation("lag", "count a lag below nothing", _KAFKA + "positions_in_log.py", _LOG, "max(0, end - max", "(end - max"),
    Mutation("lag", "take what was never committed for the end", _KAFKA + "positions_in_log.py", _LOG, "one.offset if one.offset >= 0 else begins.get(number, 0)", "one.offset if one.offset >= 0 else ends.get(number, 0)"),
    Mutation("lag", "miss no entry that was deleted", _KAFKA + "positions_in_log.py", _LOG, "if count > 0}", "if False}"),
    Mutation("lag", "miss entries of who committed nothing", _KAFKA + "positions_in_log.py", _LOG, "for number, one in committed.items() if one.offset >= 0}\n    return", "for number, one in committed.items()}\n    return"),
    Mutation("lag", "forget that a log was cut off when it has grown", _KAFKA + "positions_in_log.py", _LOG, "sorted((found | stands).items())", "sorted(found.items())"),
    Mutation("lag", "take a log that ends at the place for one that was cut off", _KAFKA + "positions_in_log.py", _LOG, "if cut.place > cut.end}", "if cut.place >= cut.end}"),
    Mutation("announcements", "say more than a broker takes", _KAFKA + "announcement.py", _TOLD, "> LONGEST:\n", "> 10 * LONGEST:\n"),
    Mutation("announcements", "leave out what was said last", _KAFKA + "announcement.py", _TOLD, "            said = said[max(1, len(said) // 4) :]", "            said = said[: -max(1, len(said) // 4)]"),
    Mutation("outputs", "commit between entries that are finished together", _KAFKA + "pending_outputs.py", _PENDING, "                if first < offset <= last:", "                if False:"),
    Mutation("outputs", "look for such a place once", _KAFKA + "pending_outputs.py", _PENDING, "                    offset, cut = first, True", "                    offset = first"),
    Mutation("outputs", "send what is not finished", _KAFKA + "pending_outputs.py", _PENDING, "if together.last < offset]", "if together.last <= offset]"),
    Mutation("outputs", "send what was committed once more", _KAFKA + "pending_outputs.py", _PENDING, "            del self._by_first[first]", "            pass"),
    Mutation("outputs", "scatter what has no key", _KAFKA + "output_batches.py", _BATCHES, "        return source % partitions", "        return output.size % partitions"),
    Mutation("outputs", "make batches that brokers do not take", _KAFKA + "output_batches.py", _BATCHES, " or sizes[place] + size > MOST_BYTES", ""),
    Mutation("outputs", "count headers for nothing", _KAFKA + "output_batches.py", _BATCHES, " + _OVERHEAD * len(output.headers)", ""),
    Mutation("outputs", "send under a token that is spent", _KAFKA + "read_position.py", _COMMITS, "        return self.in_doubt and bool(self.outputs.due(self.offset))", "        return False"),
    Mutation("outputs", "take a new token for an offset alone", _KAFKA + "read_position.py", _COMMITS, "        return self.in_doubt and bool(self.outputs.due(self.offset))", "        return self.in_doubt"),
    Mutation("outputs", "send again what was committed", _KAFKA + "read_position.py", _COMMITS, "        self.outputs.committed(offset)", "        pass"),
    Mutation("commits", "let what is idle expire", _KAFKA + "owner_commits.py", _COMMITS, "            if position.committed_at < due and position.lost", "            if False and position.lost"),
    Mutation("commits", "commit what is idle at every turn", _KAFKA + "owner_commits.py", _COMMITS, "            if position.committed_at < due and position.lost", "            if position.lost"),
    Mutation("outputs", "forget that a commit had no answer", _KAFKA + "owner_commits.py", _COMMITS, "                    position.in_doubt = True", "                    pass"),
    Mutation("outputs", "forget that one of several commits had no answer", _KAFKA + "owner_commits.py", _COMMITS, "            position.in_doubt = True\n        refused", "            pass\n        refused"),
    Mutation("outputs", "send again what was taken before the token was another", _KAFKA + "owner_commits.py", _COMMITS, "        position.found(seen.offset)", "        pass"),
    Mutation("outputs", "send a block that came too late", "consumer/settlement.py", _BLOCKS, "        known = all(", "        known = any("),
    Mutation("outputs", "send what a block had before it raised", "consumer/transaction.py", _BLOCKS, "        if kind is None:", "        if True:"),
    Mutation("outputs", "begin a block within another", "consumer/transaction.py", _BLOCKS, "        if _open_here.get() is not None:", "        if False:"),
    Mutation("outputs", "begin a second block for an entry", "consumer/transaction.py", _BLOCKS, "            if entry.in_transaction:", "            if False:"),
    Mutation("outputs", "send after the end", "consumer/transaction.py", _BLOCKS, "        if self._state is not _State.OPEN:", "        if self._state is _State.NEW:"),
    Mutation("one question", "ask for each partition by itself", _KAFKA + "asked_together.py", _TOGETHER, "        if self._question is None:", "        if True:"),
    Mutation("one question", "leave out who asks with others", _KAFKA + "asked_together.py", _TOGETHER, "        self._joining.add(partition)", "        self._joining = {partition}"),
    Mutation("one question", "ask once more for those who have their answer", _KAFKA + "asked_together.py", _TOGETHER, "partitions, self._joining, self._question = self._joining, set(), None", "partitions, self._question = self._joining, None"),
    Mutation("one question", "have one who gives up take the answer from others", _KAFKA + "asked_together.py", _TOGETHER, "await asyncio.shield(self._question)", "await self._question"),
    Mutation("grant", "grant below the epoch that stands", _KAFKA + "adapter.py", _FENCE, "            if record is not None and record.epoch >= epoch:", "            if False:"),
    Mutation("grant", "set an epoch back that another operator has granted meanwhile", _KAFKA + "adapter.py", _FENCE, "        if before is not None and before.epoch >= epoch and before.group == self._claimant.uid:", "        if False:"),
    Mutation("query", "mark nothing that a query left", _KAFKA + "record.py", _RECORD, " if left_behind or self.query else 0)", " if left_behind else 0)"),
    Mutation("query", "keep the query where a pod reads alone", _KAFKA + "read_position.py", _POSITION, "again=again, query=0, tries", "again=again, tries"),
    Mutation("query", "forget the query at a grant", _KAFKA + "adapter.py", _RANGES, "        if before is not None and same and before.query:", "        if False:"),
    Mutation("query", "commit for a query that is over", _KAFKA + "query_records.py", _RANGES, "seen.record is not None and _query(seen) <= query and not self.remade(seen) else None", "seen.record is not None and not self.remade(seen) else None"),
    Mutation("query", "commit in a topic that was made again", _KAFKA + "query_records.py", _RANGES, "seen.record.topic_id != self.topic_id", "False"),
    Mutation("query", "set the group back to a batch that is done once more", _KAFKA + "query_ranges.py", _RANGES, "record.query != query or seen.offset >= end:", "record.query != query:"),
    Mutation("query", "commit where a pod reads alone", _KAFKA + "query_ranges.py", _RANGES, "record.query != query or seen.offset >= end:", "seen.offset >= end:"),
    Mutation("query", "reserve nothing of what is handed out", _KAFKA + "query_ranges.py", _RANGES, "                if seen.record.reserved < one.end:", "                if False:"),
    Mutation("grant", "grant a partition of another group", _KAFKA + "adapter.py", _FENCE, "        self._refuse_others(seen.record)\n        offset, record", "        offset, record"),
    Mutation("grant", "read the offset before the token is taken", _KAFKA + "adapter.py", _FENCE, "        token = await self._transactions.init(partition)\n        seen, _ = await asyncio.gather(self._transactions.stable(partition), self._transactions.begin(partition, token))\n", "        seen = await self._transactions.stable(partition)\n        token = await self._transactions.init(partition)\n        await self._transactions.begin(partition, token)\n"),
    Mutation("grant", "leave the group to who commits plainly", _KAFKA + "adapter.py", _FENCE, "        self._guard.start()\n", ""),
    Mutation("grant", "work beside members of Kafka's own protocol", _KAFKA + "adapter.py", _FENCE, "        await refuse_members(self._client, topic.name)\n", ""),
    Mutation("grant", "share a group id with a group of another topic", _KAFKA + "adapter.py", _FENCE, "            self._refuse_others(one.record, name)\n", "            pass\n"),
    Mutation("grant", "share a topic among two queues of a group", _KAFKA + "claims.py", _FENCE, "    if second and us.uid not in us.takes_over:", "    if False:"),
    Mutation("grant", "keep the topic that the queue had before", _KAFKA + "adapter.py", _FENCE, "                    await self._give_up(PartitionTransactions(self._client, topic), partition)", "                    pass"),
    Mutation("grant", "stay with the topic that was found first", _KAFKA + "owner_commits.py", _FENCE, "            if not self._offsets.found_elsewhere():", "            if True:"),
    Mutation("grant", "forget what a group had in hand that is deleted", _KAFKA + "adapter.py", _FENCE, "replace(seen.record, group=\"\", uid=None)", "replace(seen.record, group=\"\", uid=None, released=True)"),
    Mutation("grant", "share a fence between names with dots", _KAFKA + "transaction.py", "unit/queues/kafka/test_transaction.py", "baton.{group}/{topic}/{partition}", "baton.{group}.{topic}.{partition}"),
    Mutation("grant", "leave out what a topic has that was made again", _KAFKA + "adapter.py", _READING, "            self._first = 0\n", "            pass\n"),
    Mutation("grant", "keep what is given up", _KAFKA + "adapter.py", _FENCE, "await transactions.renewed(partition, _given_up)", "pass"),
)  # fmt: skip
