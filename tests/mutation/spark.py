# ruff: noqa: E501 -- a line of source is quoted as it stands
"""What the driver of a Spark fleet decides: its rules, each broken in one place."""

from tests.mutation.mutation import Mutation

_SEARCH = "unit/spark/test_batch_search.py"
_STREAM = "unit/spark/test_stream.py"
_FINISHING = "unit/spark/test_finishing.py"
_ANSWERS = "unit/spark/test_finishing_answers.py"
_LEDGER = "unit/spark/test_ledger.py"
_DISMISSALS = "unit/spark/test_dismissals.py"
_RANGES = "unit/spark/test_ranges.py"
_STATISTICS = "unit/spark/test_statistics.py"
_QUEUES = "unit/spark/test_queues.py"
_QUERIES = "unit/spark/test_queries.py"
_LOOP = "unit/spark/test_fleet_loop.py"

SPARK = (
    # A batch's end
    Mutation("batch end", "serve partitions in the same order each time", "spark/batch_search.py", _SEARCH, "key=lambda one: (served.get(one.partition, -1), one.partition)", "key=lambda one: one.partition"),
    Mutation("batch end", "serve last who was never served", "spark/batch_search.py", _SEARCH, "served.get(one.partition, -1)", "served.get(one.partition, 10**9)"),
    Mutation("batch end", "leave what one does not need to the next batch", "spark/batch_search.py", _SEARCH, "_ROUNDS = 4", "_ROUNDS = 1"),
    Mutation("batch end", "give each round all the rows", "spark/batch_search.py", _SEARCH, "            rows -= end - question.start\n", ""),
    Mutation("batch end", "give each round all the bytes", "spark/batch_search.py", _SEARCH, "            size -= answer.size\n", ""),
    Mutation("batch end", "give the first all the rows", "spark/batch_search.py", _SEARCH, "    share, over = divmod(rows, asked)", "    share, over = rows, 0"),
    Mutation("batch end", "give the first all the bytes", "spark/batch_search.py", _SEARCH, "max(1, size // asked)", "max(1, size)"),
    Mutation("batch end", "leave rows over that do not divide", "spark/batch_search.py", _SEARCH, "entries = share + (index < over)", "entries = share"),
    Mutation("batch end", "ask more partitions than there are rows", "spark/batch_search.py", _SEARCH, "    asked = min(len(candidates), rows)", "    asked = len(candidates)"),
    Mutation("batch end", "read behind the end of a query that ends", "spark/batch_search.py", _SEARCH, "            most = answer.last if candidate.most is None else min(answer.last, candidate.most)", "            most = answer.last"),
    Mutation("batch end", "ask for more than a query that ends is to read", "spark/batch_search.py", _SEARCH, "            entries = min(entries, most - start)", "            pass"),
    Mutation("batch end", "end a range below the first entry that is there", "spark/batch_search.py", _SEARCH, "if end <= question.start or end < answer.first:", "if end <= question.start:"),
    Mutation("batch end", "give an empty range to who has nothing", "spark/batch_search.py", _SEARCH, "if end <= question.start or end < answer.first:", "if end < answer.first - 1:"),
    Mutation("batch end", "ask again who has nothing more", "spark/batch_search.py", _SEARCH, "            if end < most:\n", "            if True:\n"),
    Mutation("batch end", "forget in the second round where the first ended", "spark/batch_search.py", _SEARCH, "start = ends.get(grant.partition, position)", "start = position"),
    Mutation("batch end", "forget who was not asked", "spark/batch_search.py", _SEARCH, "left = more + left[len(questions) :]", "left = more"),

    # Which partitions are asked
    Mutation("due", "ask all the time who has nothing", "spark/batch_search.py", _SEARCH, "                and not known.more\n", "                and False\n"),
    Mutation("due", "wait for who has changed hands", "spark/batch_search.py", _SEARCH, "                and known.epoch == candidate.grant.epoch\n", ""),
    Mutation("due", "wait at a position of which nothing is known", "spark/batch_search.py", _SEARCH, "                and known.position == candidate.position\n", ""),
    Mutation("due", "wait for a paused partition until it is woken", "spark/batch_search.py", _SEARCH, "            asked.again = now + (_REFUSED_AGAIN if isinstance(answer, Stale) else _LATER_AGAIN)", "            pass"),
    Mutation("due", "ask a queue that is away all the time", "spark/batch_search.py", _SEARCH, "now < known.again", "False"),
    Mutation("due", "wait where there is more", "spark/batch_search.py", _SEARCH, "candidate.position < end or end < answer.last", "False"),
    Mutation("due", "sleep on when woken", "spark/batch_search.py", _SEARCH, "                known.more = True", "                pass"),

    # A batch that always fails
    Mutation("failing", "count tries whose entries could not be read", "spark/queries.py", _QUERIES, "        if entries:\n            of_batch", "        if True:\n            of_batch"),
    Mutation("failing", "count tries of other entries", "spark/queries.py", _QUERIES, "before.of_batch + 1 if entries == before.entries else 1", "before.of_batch + 1"),
    Mutation("failing", "count what fails behind a batch", "spark/queries.py", _QUERIES, "return _OF_ROWS.fullmatch(cause) is not None", "return True"),
    Mutation("failing", "count what is in the commit log already", "spark/queries.py", _QUERIES, " and not words.startswith(_OF_LOGS)", ""),
    Mutation("failing", "wait for the owner of what the queue does not have any more", "spark/stream.py", _STREAM, "[one for one in missing if one in there]", "missing"),
    Mutation("failing", "skip rows whose batches the files have", "spark/stream.py", "unit/spark/test_stream.py", "if batch_of_files > batch:", "if False:"),
    Mutation("failing", "set aside beside another source", "spark/stream.py", _STREAM, "            if self._alone and not any(", "            if not any("),
    Mutation("failing", "count failures that are over", "spark/queries.py", _QUERIES, "before = self if batches_done == self.batches_done else QueryFailures()", "before = self"),
    Mutation("failing", "tell of a pod that has ended what comes last", "spark/queries.py", _QUERIES, "|The API gave the following container statuses:", ""),
    Mutation("failing", "set aside what could not be read", "spark/stream.py", _STREAM, "not any(report.how is How.FAILED for report in self._around.finishing.reported(batch)):\n", "True:\n"),

    # The search for a batch's end
    Mutation("batches", "never hear of a partition while another has rows in every batch", "spark/batch_search.py", "unit/spark/test_stream.py", "self._unheard = waiting if chosen.ends else ()", "self._unheard = ()"),
    Mutation("search", "read what is to be let go", "spark/batch_search.py", _STREAM, "in ownership.owners.items():", "in {**ownership.owners, **{one.partition: one for one in ownership.revoking}}.items():"),
    Mutation("search", "read where the owner is not registered", "spark/batch_search.py", _STREAM, "if position is None or grant.member not in executors or grant.queue", "if position is None or grant.queue"),
    Mutation("search", "read from the beginning what the offset does not have yet", "spark/batch_search.py", _STREAM, "            position = start.get(partition)\n", "            position = start.get(partition, 0)\n"),
    Mutation("search", "read any number of bytes of a queue that does not tell sizes", "spark/batch_search.py", _STREAM, "max(1, min(question.most_entries, question.most_bytes // size))", "question.most_entries"),
    Mutation("search", "ask for no entry where one is larger than the limit", "spark/batch_search.py", _STREAM, "max(1, min(question.most_entries, question.most_bytes // size))", "min(question.most_entries, question.most_bytes // size)"),
    Mutation("search", "guess sizes where nobody has set a limit", "spark/batch_search.py", _STREAM, "else _UNKNOWN if self._options.max_bytes < MAX_BYTES else 0", "else _UNKNOWN"),
    Mutation("search", "read on in a query that is at its end", "spark/batch_search.py", _STREAM, "            if most is None or position < most:", "            if True:"),
    Mutation("search", "read in a query that ends what came after its beginning", "spark/batch_search.py", _STREAM, "None if self.target is None else self.target.get(partition, position)", "None"),
    Mutation("search", "let grants of a batch go before it is read", "spark/batch_search.py", _STREAM, "            self._around.grants_in_use.put_back(grant for grant in taken if grant not in kept)", "            self._around.grants_in_use.put_back(taken)"),
    Mutation("search", "keep grants that have nothing", "spark/batch_search.py", _STREAM, "            self._around.grants_in_use.put_back(grant for grant in taken if grant not in kept)", "            pass"),
    Mutation("search", "pass over what is gone without leave", "spark/batch_search.py", _STREAM, "                if self._options.fail_on_data_loss:", "                if False:"),
    Mutation("search", "end for what is gone though it may", "spark/batch_search.py", _STREAM, "                if self._options.fail_on_data_loss:", "                if True:"),
    Mutation("search", "leave out the first entry behind what is gone", "spark/batch_search.py", _STREAM, "start=answer.first - 1", "start=answer.first"),
    Mutation("search", "go on after a later query has begun", "spark/batch_search.py", _STREAM, "            if isinstance(answer, LaterQuery):\n                raise superseded(answer.number)", "            pass"),
    Mutation("search", "wait for ever for the end of a query whose entries are gone", "spark/batch_search.py", _STREAM, "                    self.target = {**self.target, partition: candidate.position}", "                    pass"),
    Mutation("search", "learn from who was not asked", "spark/batch_search.py", _STREAM, "                continue\n            answer = chosen.answers[partition]", "                pass\n            answer = chosen.answers.get(partition)"),
    Mutation("search", "forget who was served", "spark/batch_search.py", _STREAM, "        self._served |= dict.fromkeys(partitions, self._batches)\n", ""),
    Mutation("search", "ask nobody who was woken", "spark/batch_search.py", _STREAM, "        self._due.woken(self._around.queues.wait(idle, seconds))", "        self._around.queues.wait(idle, seconds)"),
    Mutation("search", "know nothing short of its end", "spark/batch_search.py", _STREAM, "if start.get(partition, last) < last)", "if False)"),

    # A query's stream
    Mutation("stream", "take a number when another has the group", "spark/stream.py", _STREAM, "        self._check()  # before a number is taken: it would end the query of the group's present driver\n", ""),
    Mutation("stream", "go on waiting when the group is lost", "spark/stream.py", _STREAM, "        while True:\n            self._check()\n", "        while True:\n"),
    Mutation("stream", "wait for more when all is read that was there", "spark/stream.py", _STREAM, " or self._search.at_end(start)", ""),
    Mutation("stream", "plan when the group is lost", "spark/stream.py", _STREAM, "        start, end = self._parsed(start_text), self._parsed(end_text)\n        self._check()\n", "        start, end = self._parsed(start_text), self._parsed(end_text)\n"),
    Mutation("stream", "finish nothing with the next question", "spark/stream.py", _STREAM, "        self.done(start)  # Spark asks", "        # Spark asks"),
    Mutation("stream", "keep the grants of a batch that Spark never planned", "spark/stream.py", _STREAM, "        self._leave_chosen()\n        self._hold()  # before", "        self._hold()  # before"),
    Mutation("stream", "give rows to the batch that first names a partition", "spark/stream.py", _STREAM, "                return {**start, **entered}\n", "                start = {**start, **entered}\n"),
    Mutation("stream", "begin a batch while the fleet stops", "spark/stream.py", _STREAM, "        if self._around.stopping():\n            self.held = True\n            raise AskAgain(_STOPPING_AGAIN)\n", ""),
    Mutation("stream", "answer at once where there is nothing", "spark/stream.py", _STREAM, "            self._search.wait(found.idle, deadline - now)\n", "            break\n"),
    Mutation("stream", "keep a query's other sources as long as one that has none", "spark/stream.py", _STREAM, "IDLE if self._alone else IDLE_BESIDE_OTHERS", "IDLE"),
    Mutation("stream", "leave no time to hear what was woken", "spark/stream.py", _STREAM, "now + (IDLE if self._alone else IDLE_BESIDE_OTHERS)", "now"),
    Mutation("stream", "record ranges before those of the last batch are finished", "spark/stream.py", _STREAM, "            if not self._around.finishing.settled(queues):", "            if False:"),
    Mutation("stream", "repeat a batch without its owners at once", "spark/stream.py", _STREAM, "            if known is None:\n                self._await_owners", "            if False:\n                self._await_owners"),
    Mutation("stream", "wait for owners of a repeated batch for ever", "spark/stream.py", _STREAM, "        if now - self._waits[1] < self._around.repeat_wait:", "        if True:"),
    Mutation("stream", "begin the wait for owners again with each question", "spark/stream.py", _STREAM, "        if self._waits is None or self._waits[0] != end:", "        if True:"),
    Mutation("stream", "record a batch twice that is planned twice", "spark/stream.py", _STREAM, "            if known is None or known is not self._planned:  #", "            if True:  #"),
    Mutation("stream", "record only what is repeated", "spark/stream.py", _STREAM, "            if known is None or known is not self._planned:  #", "            if known is None:  #"),
    Mutation("stream", "let the grants of a repeated batch go", "spark/stream.py", _STREAM, "frozenset(self._take(ends))", "frozenset()"),
    Mutation("stream", "finish a batch that is done in part", "spark/stream.py", _STREAM, "            if batch is None or any(position.get(partition, -1) < end for partition, end in batch.ends.items()):", "            if batch is None:"),
    Mutation("stream", "finish a batch twice", "spark/stream.py", _STREAM, "                return\n            self._planned = None\n", "                return\n"),
    Mutation("stream", "keep the grants of a query that has ended", "spark/stream.py", _STREAM, "                self.unfinished = batch.query, tuple(self._recorded)\n            self._around.grants_in_use.put_back(batch.grants)", "                self.unfinished = batch.query, tuple(self._recorded)"),
    Mutation("stream", "keep the grants of a batch that was chosen when the query ended", "spark/stream.py", _STREAM, "        self._leave_chosen()\n        with self._lock:\n            batch, self._planned", "        with self._lock:\n            batch, self._planned"),
    Mutation("stream", "take a number with each question", "spark/stream.py", _STREAM, "        if names == self.known.keys() or (start and now < self._again):\n            return\n", ""),
    Mutation("stream", "leave unfinished what the last query had no time to finish", "spark/stream.py", _STREAM, "if any(partition.queue == queue for partition in start):", "if False:"),
    Mutation("stream", "finish partitions that there are no more", "spark/stream.py", _STREAM, "in start.items() if one in there}", "in start.items()}"),
    Mutation("stream", "say once only that a batch is done", "spark/stream.py", _STREAM, "        if now - self._settled >= _SETTLE_EVERY:", "        if False:"),
    Mutation("stream", "say it again only where nothing comes", "spark/stream.py", _STREAM, "            self._query.settle(start)\n            addresses", "            addresses"),
    Mutation("stream", "finish without what a batch has met of nobody's", "spark/stream.py", _STREAM, "                if not self._around.finishing.settled({queue}):\n                    continue\n", ""),
    Mutation("stream", "go on when idle after a later query has begun", "spark/stream.py", _STREAM, "                        if isinstance(answer, LaterQuery):", "                        if False:"),
    Mutation("stream", "end an idle query when its queue is away", "spark/stream.py", _STREAM, "                with suppress(QueueAwayError):\n                    for", "                with suppress(KeyError):\n                    for"),
    Mutation("stream", "read a checkpoint of another queue", "spark/stream.py", _STREAM, "        of_these_queues(positions, self._around.queues.names, self._around.group)\n", ""),
    Mutation("stream", "leave out partitions that appear", "spark/stream.py", _STREAM, "        return committed_positions(missing, self._around.queues) if missing else {}", "        return {}"),
    Mutation("stream", "leave out partitions that a query that ends is to read and nobody owns", "spark/stream.py", _STREAM, " | (self._search.target or {}).keys()", ""),
    Mutation("stream", "end a query that ends before all are read", "spark/stream.py", _STREAM, "        if short and not self._around.stopping():", "        if False:"),
    Mutation("stream", "have everybody borrow what is being revoked", "spark/stream.py", _STREAM, "owners({**ownership.owners, **revoking}, executors", "owners(ownership.owners, executors"),
    Mutation("stream", "read under grants that are being revoked and not in use", "spark/stream.py", _STREAM, "for one in ownership.revoking & grants}", "for one in ownership.revoking}"),
    Mutation("stream", "tell no reader what may have been handed out before", "spark/stream.py", _STREAM, "executors, logged.seen)", "executors, 0)"),
    Mutation("stream", "know where a query ends only if the queue answers at once", "spark/stream.py", _STREAM, "        except QueueAwayError:\n            raise AskAgain(_QUEUE_AGAIN) from None\n\n    def latest_offset", "        except QueueAwayError:\n            self._search.target = {}\n\n    def latest_offset"),

    Mutation("search", "wait in vain for what was asked in vain", "spark/batch_search.py", _STREAM, "        idle += [one for one in due if one.partition not in chosen.ends and chosen.answers.get(one.partition) is not None]\n", ""),

    # Ranges at their queues
    Mutation("recording", "go on recording after a later query has begun", "spark/ranges.py", _STREAM, "                case LaterQuery(number):\n                    raise superseded(number)", "                case LaterQuery(number):\n                    pass"),
    Mutation("recording", "leave out rows without leave", "spark/ranges.py", _STREAM, "                    if fail_on_data_loss:", "                    if False:"),
    Mutation("recording", "leave out all of a range of which some is gone", "spark/ranges.py", _STREAM, "                    if there.start < there.end:", "                    if False:"),
    Mutation("recording", "leave out the first entry that is there", "spark/ranges.py", _STREAM, "max(one.start, first - 1)", "max(one.start, first)"),
    Mutation("recording", "insist on all of a range of which some is gone", "spark/ranges.py", _STREAM, "left, partly = shorter, True", "left, partly = shorter, False"),
    Mutation("recording", "count no lost positions", "spark/ranges.py", _STREAM, "                    counts.add(\"positions_lost\"", "                    counts.add(\"ranges_finished\""),

    # Where ranges are read
    Mutation("placement", "give rows to a partition that appears", "spark/ranges.py", _RANGES, "        if position > start.get(partition, position)", "        if position > start.get(partition, 0) and partition in start or partition not in start and position"),
    Mutation("placement", "give empty ranges to tasks", "spark/ranges.py", _RANGES, "        if position > start.get(partition, position)", "        if position >= start.get(partition, position + 1)"),
    Mutation("placement", "place a range at an owner that is not there", "spark/ranges.py", _RANGES, " is not None and grant.member in executors}", " is not None}"),
    Mutation("placement", "name no executor as the reader", "spark/ranges.py", _RANGES, "\"executor\": executor.id,", "\"executor\": \"\","),
    Mutation("placement", "read as the owner under another epoch", "spark/ranges.py", _RANGES, "\"epoch\": owner.epoch", "\"epoch\": owner.epoch + 1"),

    Mutation("tasks", "have one task read for several executors", "spark/ranges.py", _RANGES, "of_executor[executor or f\"any {place}\"]", "of_executor[\"any\"]"),
    Mutation("tasks", "have one task read all that may be read anywhere", "spark/ranges.py", _RANGES, "executor or f\"any {place}\"", "executor"),
    Mutation("tasks", "have a task for each range", "spark/ranges.py", _RANGES, "        count = min(len(places), at_once * max(1, rounds))", "        count = len(places)"),
    Mutation("tasks", "have one task for all ranges of an executor", "spark/ranges.py", _RANGES, "        count = min(len(places), at_once * max(1, rounds))", "        count = 1"),
    Mutation("tasks", "leave cores of an executor without work", "spark/ranges.py", _RANGES, "min(len(places), at_once * max(1, rounds))", "min(len(places), max(1, at_once * rounds // 2))"),
    Mutation("tasks", "give all rows to one of an executor's tasks", "spark/ranges.py", _RANGES, "(rows + ranges[place][1], found[place])", "(rows, found[place])"),

    # What is done
    Mutation("finishing", "give up a batch whose queue is away", "spark/finishing.py", _ANSWERS, "                if self._closed.wait(AGAIN):\n                    return", "                return"),
    Mutation("finishing", "wait for a queue for ever while the fleet ends", "spark/finishing.py", _ANSWERS, "                if self._closed.wait(AGAIN):\n                    return", "                self._closed.wait(AGAIN)"),
    Mutation("finishing", "keep grants of what is finished", "spark/finishing.py", _FINISHING, "            self._grants_in_use.put_back(batch.grants)\n", ""),
    Mutation("finishing", "never be done with what is finished", "spark/finishing.py", _FINISHING, "                self._open[queue] -= 1\n", "                pass\n"),
    Mutation("finishing", "say that all is finished before it is", "spark/finishing.py", _FINISHING, "            self._open.update(queues)\n", "            pass\n"),
    Mutation("finishing", "end with the first batch that fails", "spark/finishing.py", _ANSWERS, "            log.exception(\"finishing batch %s of %s at queue %s failed\", batch.batch, batch.stream, queue)", "            raise"),
    Mutation("finishing", "set nothing aside that a reader named", "spark/finishing.py", _ANSWERS, "batch.ends, foreign)", "batch.ends, {})"),
    Mutation("finishing", "count a refusal as finished", "spark/finishing.py", _ANSWERS, "sum(isinstance(answer, Finished) for answer in answers.values())", "len(answers)"),
    Mutation("finishing", "end without what was submitted", "spark/finishing.py", _ANSWERS, "        until = time.monotonic() + seconds\n", "        until = time.monotonic() + seconds\n        self._closed.set()\n"),

    Mutation("finishing", "hold up a queue for another that is away", "spark/stream.py", _STREAM, ".settled(queues)", ".settled()"),
    Mutation("finishing", "finish at each queue the parts of all", "spark/finishing.py", _FINISHING, "if partition.queue == queue}", "}"),
    Mutation("finishing", "put back at each queue the grants of all", "spark/finishing.py", _FINISHING, "frozenset(grant for grant in self.grants if grant.queue == queue)", "self.grants"),
    Mutation("finishing", "give up a batch whose reports are lost", "spark/finishing.py", _FINISHING, "            return ()", "            raise"),

    # Grants that are in use
    Mutation("grants", "release what a batch has", "spark/ledger.py", _LEDGER, "revoking - self._taken.keys())", "revoking)"),
    Mutation("grants", "release what the next batch has as well", "spark/ledger.py", _LEDGER, "            self._taken.subtract(back)\n            self._taken = +self._taken\n", "            for grant in back:\n                self._taken.pop(grant, None)\n"),
    Mutation("grants", "never release what a batch had", "spark/ledger.py", _LEDGER, "            self._taken = +self._taken\n            self.review()\n", "            self._taken = +self._taken\n"),
    Mutation("grants", "take what is not recorded as taken", "spark/ledger.py", _LEDGER, "            self._taken.update(chosen)\n", ""),
    Mutation("grants", "tell the same releases again and again", "spark/ledger.py", _LEDGER, "            if released == self._released:\n                return\n", ""),
    Mutation("grants", "overlook what the ledger wants back", "spark/ledger.py", _LEDGER, "        ledger.on_change(self.review)\n", ""),
    Mutation("grants", "take an owner for late that was asserted again", "spark/ledger.py", _LEDGER, "grant).uid != grant.uid", "grant) != grant"),
    Mutation("grants", "take for late an owner that was not replaced", "spark/ledger.py", _LEDGER, "if owners.get(grant.partition, grant).uid != grant.uid", "if owners.get(grant.partition) != grant"),

    # What tasks report
    Mutation("reports", "count as read by its owner what was lent as well", "spark/statistics.py", _STATISTICS, "lent = How.LENT in (report.how, found.get(report.partition))", "lent = How.LENT is report.how"),
    Mutation("reports", "count a refusal as read", "spark/statistics.py", _STATISTICS, "if report.how in (How.OWNER, How.LENT) and ends", "if ends"),
    Mutation("reports", "count what another batch had", "spark/statistics.py", _STATISTICS, "if report.how in (How.OWNER, How.LENT) and ends.get(report.partition) == report.end:", "if report.how in (How.OWNER, How.LENT):"),
    Mutation("reports", "set aside what another batch named", "spark/statistics.py", _STATISTICS, "if ends.get(report.partition) == report.end and len(report", "if len(report"),
    Mutation("reports", "set aside only what the last attempt named", "spark/statistics.py", _STATISTICS, "len(report.foreign) > len(found.get(report.partition, ()))", "True"),

    # Executors that leave, and that stop
    Mutation("dismissal", "give new work to who is about to be killed", "spark/dismissals.py", _DISMISSALS, "left.get(one.pod, LAST + 1) > LAST", "True"),
    Mutation("dismissal", "give nothing new to who is asked to stop", "spark/dismissals.py", _DISMISSALS, "left.get(one.pod, LAST + 1) > LAST", "one.pod not in left"),
    Mutation("dismissal", "end who has what a job needs", "spark/dismissals.py", _DISMISSALS, "        if due and self._executors.jobs():", "        if False:"),
    Mutation("dismissal", "wait for a job in the last seconds too", "spark/dismissals.py", _DISMISSALS, "if left.get(by_id[one], 0.0) <= LAST]", "if False]"),
    Mutation("dismissal", "end who has a task", "spark/dismissals.py", _DISMISSALS, "self._executors.end(due, idle=True)", "self._executors.end(due)"),
    Mutation("dismissal", "look seldom where somebody is still to be ended", "spark/dismissals.py", _DISMISSALS, "return ended >= frozenset(dismissed)", "return True"),
    Mutation("hold-up", "kill who is slow and missed nothing", "spark/fleet_loop.py", _LOOP, "    if not at_work or not at_work <= missed:", "    if not at_work:"),
    Mutation("hold-up", "kill while others work", "spark/fleet_loop.py", _LOOP, "not at_work <= missed", "not at_work & missed"),
    Mutation("hold-up", "kill who makes progress", "spark/fleet_loop.py", _LOOP, " and before.finished == finished", ""),
    Mutation("hold-up", "begin the time again with each look", "spark/fleet_loop.py", _LOOP, "        return before\n", "        pass\n"),
    Mutation("hold-up", "kill at once", "spark/fleet_loop.py", _LOOP, "and now - found.since >= patience", ""),

    # A fleet's queues
    Mutation("fleet's queues", "let one queue that is away stop the questions to others", "spark/queues.py", _QUEUES, "                with suppress(QueueAwayError):\n                    found[name] = answer.result()", "                found[name] = answer.result()"),
    Mutation("fleet's queues", "take a queue that was away for idle", "spark/queues.py", _QUEUES, "                away.add(partition)", "                pass"),
    Mutation("fleet's queues", "let an interrupt end every later pause", "spark/queues.py", _QUEUES, "        self._interrupted.clear()\n", ""),
    Mutation("fleet's queues", "wait for each queue in its turn", "spark/queues.py", _QUEUES, "            self._queues[waiting[one]].interrupt()", "            pass"),
    Mutation("fleet's queues", "end the next wait of a queue that has answered", "spark/queues.py", _QUEUES, "        for one in others:  #", "        for one in waiting:  #"),
    Mutation("fleet's queues", "forget who waits at a queue that has gone away", "spark/queues.py", _QUEUES, "            return {Partition(name, number) for number in numbers}", "            return set()"),
    Mutation("fleet's queues", "say for ever that a queue is away", "spark/queues.py", _QUEUES, "self._away.pop(queue, None)", "self._away.get(queue)"),
    Mutation("fleet's queues", "say at once that a queue is away", "spark/queues.py", _QUEUES, "self._away.copy().items()) if begun <= since]", "self._away.copy().items())]"),

    Mutation("fleet's queues", "wait for all queues as long as for the last", "spark/queues.py", _QUEUES, "timeout=self.patience(kind, answers))", "timeout=None)"),
    Mutation("fleet's queues", "ask a queue again that has not answered yet", "spark/queues.py", _QUEUES, "asked.items() if name not in behind\n", "asked.items()\n"),
    Mutation("fleet's queues", "never ask a queue again that was left behind", "spark/queues.py", _QUEUES, "in those.items() if not one.done()}", "in those.items()}"),
    Mutation("stream", "begin a new query before all its queues answer", "spark/stream.py", _STREAM, "        if not start and names != self.known.keys():", "        if False:"),
    Mutation("stream", "wait with a checkpoint until all queues answer", "spark/stream.py", _STREAM, "        if not start and names != self.known.keys():", "        if names != self.known.keys():"),
    Mutation("stream", "plan ranges of a queue that has given no number", "spark/stream.py", _STREAM, "            if not queues <= self._query.known.keys():\n                raise AskAgain(_QUEUE_AGAIN)\n", ""),
    Mutation("stream", "look all the time beside other sources", "spark/stream.py", _STREAM, "took / _SHARE_BESIDE_OTHERS, took", "0, took"),
    Mutation("stream", "say of a stream that stops that a batch may run", "spark/stream.py", _STREAM, "            self.held = True\n", ""),
    Mutation("hold-up", "kill who waits for a queue that is away", "spark/fleet_loop.py", "unit/spark/test_fleet_loop.py", "if kill and not self._queues_answer():", "if False:"),

    # Queries that fail
    Mutation("failures", "try again all the time", "spark/queries.py", "unit/spark/test_queries.py", "_FIRST * 2 ** min(self.count - 1, _SIX)", "_FIRST"),
    Mutation("failures", "wait longer and longer", "spark/queries.py", "unit/spark/test_queries.py", "min(_LONGEST, _FIRST *", "max(0.0, _FIRST *"),
    Mutation("failures", "tell of the first failure", "spark/queries.py", "unit/spark/test_queries.py", "if self.count < told_after or", "if"),
    Mutation("failures", "tell of failures that are over", "spark/queries.py", "unit/spark/test_queries.py", "if self.count < told_after or batches_done != self.batches_done:", "if self.count < told_after:"),
)  # fmt: skip
