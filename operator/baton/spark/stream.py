"""One stream of the source: a query that reads the group's queues, batch after batch."""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from baton.model.ids import MemberId, Partition, QueueName
from baton.model.wording import counted
from baton.queues.logged_ranges import LaterQuery
from baton.spark.batch_search import BatchSearch
from baton.spark.context import FleetContext
from baton.spark.executors import Executor
from baton.spark.finishing import PlannedBatch
from baton.spark.ledger import PartitionGrant
from baton.spark.offsets import AskAgain, Positions, SourceError, StreamOptions, of_these_queues, parse_offset
from baton.spark.queues import QueueAwayError, Range
from baton.spark.ranges import (
    Recorded,
    committed_positions,
    first_positions,
    owners,
    placed,
    range_tasks,
    ranges,
    record_ranges,
    superseded,
)
from baton.spark.statistics import How

log = logging.getLogger("baton.spark")

# -- the query that a stream is part of: a source sees the options of `load()`, not those of `writeStream`


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """What counts of it."""

    id: str
    alone: bool = True
    """It has no other source, which would wait while this one waits for entries."""


def running_query(text: str) -> RunningQuery:
    """`text`: JSON, as RunningQuery.java tells it. Raises SourceError for a query that would lose rows, or read none."""
    told = json.loads(text)
    if told.get("asyncProgress"):
        raise SourceError(
            "the query has asyncProgressTrackingEnabled, whose logs say that a batch is done before it is: rows could be lost. "
            "Take this option out of writeStream"
        )
    if told.get("once"):
        raise SourceError(
            "the query has the trigger once, which is one batch; and the first batch of a query has no rows, for it writes down "
            "where the query begins. Use trigger(availableNow=True), which reads all that is there and ends"
        )
    batch, batch_of_files = told.get("batch", -1), told.get("batchOfFiles", -1)
    if batch_of_files > batch:
        raise SourceError(
            f"the folder that the query writes to has batches up to {batch_of_files}, and its checkpoint up to {batch}: "
            "that is new, or older. Spark's file sink skips the batches that it has, and rows would be lost. Give the query "
            "another path, or the checkpoint that belongs to these files"
        )
    return RunningQuery(told["id"], told.get("sources", 1) <= 1)


# -- the query's number at each queue, and what earlier queries left to finish

_BEGIN_AGAIN = 1.0
"""Seconds until a queue that was away is asked for a number again."""
_SETTLE_EVERY = 30.0


class QueryNumbers:
    """Of one stream, for its thread."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self.known: Mapping[QueueName, int] = {}
        """At each queue that has answered."""
        self._again = self._settled = context.clock()

    def begin(self, start: Positions) -> None:
        """Once the Lease is held: take a number from each queue that answers, and finish what the last query has written down as
        done but had no time to finish. Without a checkpoint all have to answer, or QueueAwayError is raised."""
        names, now = self._context.queues.names, self._context.clock()
        if names == self.known.keys() or (start and now < self._again):
            return
        self._again = now + _BEGIN_AGAIN
        found = self._context.queues.begin(names - self.known.keys())
        for queue, number in found.items():
            with suppress(QueueAwayError):
                if any(partition.queue == queue for partition in start):
                    there = self._context.queues.positions({queue}).keys()  # one that was made again may have fewer partitions
                    left = {one: end for one, end in start.items() if one in there}
                    self._context.queues.finish({queue: number}, left)
                self.known = {**self.known, queue: number}
        if not start and names != self.known.keys():
            raise QueueAwayError

    def settle(self, start: Positions) -> None:
        """A failover may have lost that a batch was finished. Of a partition to which nothing new comes it is not said again, and
        if it is to be emptied it would never be. A queue at which a batch is just being finished is left to that, and one that
        does not answer is told the next time."""
        now = self._context.clock()
        if now - self._settled >= _SETTLE_EVERY:
            self._settled = now
            for queue in sorted(self._context.queues.answering(self.known)):
                if not self._context.finishing.settled({queue}):
                    continue
                mine = {partition: end for partition, end in start.items() if partition.queue == queue}
                with suppress(QueueAwayError):
                    for answer in self._context.queues.finish(self.known, mine).values():
                        if isinstance(answer, LaterQuery):
                            raise superseded(answer.number)


# -- the stream

IDLE = 0.2
"""Seconds for which Spark is kept when there is nothing: it would ask again after a hundredth of a second."""
IDLE_BESIDE_OTHERS = 0.02
"""Likewise in a query that has other sources: Spark asks one after the other, and these may have rows."""
_SHARE_BESIDE_OTHERS = 0.05
"""Of the time is spent in such a query at most on looking for what is new."""
_OWNERS_AGAIN = 200
_QUEUE_AGAIN = 500
_SOON_AGAIN = 20
_STOPPING_AGAIN = 100
"""Milliseconds until Spark asks again, where something is waited for."""
_TOLD_EVERY = 30.0


class Stream:
    """For the thread of one query; `done` and `stop` may be called by others.

    `latest_offset`, `plan` and `prepare_available_now` raise AskAgain where a queue or an owner is waited for, and SourceError.
    """

    def __init__(self, name: str, query: RunningQuery, place: str, options: StreamOptions, context: FleetContext) -> None:
        """`place`: of its source in the query's checkpoint."""
        self.name, self.query_id, self.place = name, query.id, place
        self._alone = query.alone
        self.held = False
        """The fleet stops, and Spark's thread is kept here: no batch runs, nor begins."""
        self.last_plan = ""
        """The batch that was planned last, for people."""
        self._options, self._context = options, context
        self._query = QueryNumbers(context)
        self._search = BatchSearch(options, context)
        self._lock = threading.Lock()
        self._chosen: PlannedBatch | None = None
        """What `latest_offset` answered last, and Spark has not planned yet."""
        self._planned: PlannedBatch | None = None
        self.position: Positions = {}
        """Everything up to here is done, as far as Spark has said."""
        self._recorded: Recorded = {}
        """The ranges of what is planned."""
        self.unfinished: tuple[Mapping[QueueName, int], tuple[Range, ...]] = {}, ()
        """When it has ended: the query's numbers, and the ranges that were planned, could be read, and are not done. None
        beside other sources, whose rows the batch has, too: it may fail for them."""
        self._waits: tuple[Positions, float] | None = None
        """The batch that waits for owners, and since when."""
        self._lent: Positions | None = None
        """The batch that waits for them no more."""
        self._told = 0.0
        self._nothing: tuple[str, float, float] | None = None
        """Beside other sources: the offset behind which there was nothing, until when no look is due, and how long that took."""

    def prepare_available_now(self) -> None:
        """The query ends when it has read what is there now."""
        try:
            self._search.target = {partition: bounds.last for partition, bounds in self._context.queues.positions().items()}
        except QueueAwayError:
            raise AskAgain(_QUEUE_AGAIN) from None

    def latest_offset(self, text: str) -> Positions:
        """The end of the next batch, which begins with the offset `text`; the same where there is nothing to read."""
        self._check()  # before a number is taken: it would end the query of the group's present driver
        if self._nothing is not None and self._nothing[0] == text and self._context.clock() < self._nothing[1]:
            self._context.sleep(min(IDLE, max(IDLE_BESIDE_OTHERS, self._nothing[2])))
            return parse_offset(text)
        start = self._parsed(text)
        self.done(start)  # Spark asks for more when it has written down that everything up to here is done
        self._leave_chosen()
        self._hold()  # before a queue is waited for
        try:
            self._query.begin(start)
            if entered := self._entering(start):
                if (later := self._context.queues.fence(self._query.known, entered)) is not None:
                    raise superseded(later)  # its checkpoint may be this one's
                return {**start, **entered}
        except QueueAwayError:
            raise AskAgain(_QUEUE_AGAIN) from None
        deadline: float | None = None
        began = self._context.clock()
        while True:
            self._check()
            self._hold()
            found = self._search.look(self._query.known, start)
            if found.ends:
                self._chosen = PlannedBatch(self.name, self._query.known, found.ends, found.grants)
                return {**start, **found.ends}
            now = self._context.clock()
            if deadline is None:  # it hears at least once what was woken
                deadline = now + (IDLE if self._alone else IDLE_BESIDE_OTHERS)
                took = now - began
            if now >= deadline or self._search.at_end(start):
                break
            self._search.wait(found.idle, deadline - now)
        self._query.settle(start)
        self._await_target(start)
        if not self._alone and self._search.target is None:
            self._nothing = text, self._context.clock() + took / _SHARE_BESIDE_OTHERS, took
        return start

    def plan(self, start_text: str, end_text: str, batch: str) -> dict[str, Any]:
        """The ranges of a batch, recorded at their queues, each with its owner. `batch`: Spark's number of it, for people."""
        start, end = self._parsed(start_text), self._parsed(end_text)
        self._check()
        todo = ranges(start, end)
        ends = {one.partition: one.end for one in todo}
        known = next((one for one in (self._chosen, self._planned) if one is not None and one.ends == ends), None)
        if known is None:
            self.done(start)
            self._leave_chosen()
            self._hold()  # it would be repeated in any case
        executors = self._context.executors()
        try:
            self._query.begin(start)
            queues = {one.partition.queue for one in todo}
            if not queues <= self._query.known.keys():
                raise AskAgain(_QUEUE_AGAIN)
            if not self._context.finishing.settled(queues):
                raise AskAgain(_SOON_AGAIN)  # it ends the ranges that these begin behind
            self._query.settle(start)
            addresses = {queue: self._context.queues.address(queue) for queue in queues}
            if known is None:
                self._await_owners(todo, executors, end, batch)
            if known is None or known is not self._planned:  # Spark plans a batch twice, for foreachBatch
                with self._context.counts.step("log"):
                    self._recorded = self._record(todo)
        except QueueAwayError:
            if known is not self._planned and self._context.stopping():  # it has not begun: the next driver repeats it
                self._leave_chosen()
                self._hold()
            raise AskAgain(_QUEUE_AGAIN) from None
        grants = known.grants if known is not None else frozenset(self._take(ends))
        with self._lock:
            self._planned = PlannedBatch(self.name, self._query.known, ends, grants, batch)
            self._chosen = self._waits = None
        self._search.served(ends)
        rows = f"of {counted(len(todo), 'range')} ({_examples(todo)})" if todo else "without rows"
        self.last_plan = f"batch {batch or '(number unknown)'} {rows}"
        return self._told_to_read(executors, grants, addresses)

    def done(self, position: Positions) -> None:
        """Spark has written down that everything up to this offset is done."""
        with self._lock:
            self.position = position
            batch = self._planned
            if batch is None or any(position.get(partition, -1) < end for partition, end in batch.ends.items()):
                return
            self._planned = None
        self._context.finishing.submit(batch)

    def stop(self) -> None:
        """The query has ended. What it was given and is not done with comes again to the next one."""
        self._leave_chosen()
        with self._lock:
            batch, self._planned = self._planned, None
        if batch is not None:
            if self._alone and not any(report.how is How.FAILED for report in self._context.finishing.reported(batch)):
                self.unfinished = batch.query, tuple(self._recorded)
            self._context.grants_in_use.put_back(batch.grants)

    def rows_behind(self, positions: Positions) -> Mapping[Partition, int]:
        """Entries of each partition behind its position, as far as its queue has said."""
        return self._search.last_entries.behind(positions)

    def metrics(self, consumed: Positions) -> Mapping[str, str]:
        """What a query's progress says of its source: texts by name. The counts of ranges are of all finished batches."""
        behind = self.rows_behind(consumed)
        view, statistics = self._context.view(behind), self._context.counts.statistics()
        return {
            "rowsBehind": str(sum(behind.values())),
            "maxRowsBehind": str(max(behind.values(), default=0)),
            "partitionsOwned": str(view.partitions_owned),
            "partitionsWaiting": str(view.partitions_waiting),
            "partitionsRevoking": str(view.partitions_revoking),
            "rangesReadOnOwner": str(statistics.ranges_read_on_owner),
            "rangesLent": str(statistics.ranges_lent),
            "readsRefused": str(statistics.reads_refused),
            "generation": str(self._context.ledger.read().generation),
        }

    def busy(self) -> bool:
        """A batch runs."""
        return self._planned is not None or self._chosen is not None

    # -- what precedes the first answer

    def _parsed(self, text: str) -> Positions:
        positions = parse_offset(text)
        of_these_queues(positions, self._context.queues.names, self._context.group)
        return positions

    def _check(self) -> None:
        if why := self._context.over():
            raise SourceError(why)

    def _hold(self) -> None:
        """Where the fleet stops: Spark's thread stays here, and no batch begins."""
        if self._context.stopping():
            self.held = True
            raise AskAgain(_STOPPING_AGAIN)

    def _entering(self, start: Positions) -> Positions:
        """The partitions that the offset does not have yet. They have no rows in the batch that names them first: so it is
        written down from where they are read."""
        if not start:
            return first_positions(self._options.starting, self._context.queues)
        there = self._context.ledger.read().ownership.partitions | (self._search.target or {}).keys()
        asked = self._query.known.keys() - self._context.queues.late()
        missing = frozenset(one for one in there - start.keys() if one.queue in asked)
        return committed_positions(missing, self._context.queues) if missing else {}

    def _leave_chosen(self) -> None:
        chosen, self._chosen = self._chosen, None
        if chosen is not None:
            self._context.grants_in_use.put_back(chosen.grants)

    def _await_target(self, start: Positions) -> None:
        """AvailableNow: a query that has nothing new for Spark is at its end, so what waits for an owner is waited for here."""
        short = self._search.short(start)
        if short and not self._context.stopping():
            self._tell("%s: waiting for the owners of %s", self.name, _named(short))
            raise AskAgain(_SOON_AGAIN)  # they have been waited for already

    # -- the ranges of a batch

    def _await_owners(self, todo: list[Range], executors: Mapping[MemberId, Executor], end: Positions, batch: str) -> None:
        """A batch that is repeated: after a restart of the driver the executors are new, and the ledger has to be. After
        repeat_wait it goes on without: what has no owner is lent."""
        found = owners(self._context.ledger.read().ownership.owners, executors, [one.partition for one in todo])
        missing = sorted(one.partition for one in todo if one.partition not in found)
        if missing:  # one that its queue does not have any more gets no owner: it was emptied, as a batch is that is set aside
            there = self._context.queues.positions({one.queue for one in missing})
            missing = [one for one in missing if one in there]
        if not missing:
            return
        now = self._context.clock()
        if self._waits is None or self._waits[0] != end:
            self._waits = end, now
            log.info("batch %s is repeated, and waits for the owners of %s", batch, _named(missing))
        if now - self._waits[1] < self._context.repeat_wait:
            raise AskAgain(_OWNERS_AGAIN)
        if self._lent != end:
            self._lent = end
            log.warning("batch %s is repeated without the owners of %s: others borrow them", batch, _named(missing))

    def _record(self, todo: Sequence[Range]) -> Recorded:
        careful = self._options.fail_on_data_loss
        return record_ranges(self._context.queues, self._query.known, todo, self._context.counts, fail_on_data_loss=careful)

    def _take(self, ends: Mapping[Partition, int]) -> list[PartitionGrant]:
        return self._context.grants_in_use.take(lambda now: [now.owners[one] for one in ends if one in now.owners])

    def _told_to_read(
        self,
        executors: Mapping[MemberId, Executor],
        grants: frozenset[PartitionGrant],
        addresses: Mapping[QueueName, Mapping[str, Any]],
    ) -> dict[str, Any]:
        ownership, recorded = self._context.ledger.read().ownership, self._recorded
        revoking = {one.partition: one for one in ownership.revoking & grants}
        owned = owners({**ownership.owners, **revoking}, executors, [one.partition for one in recorded])
        told = [placed(one, owned.get(one.partition), executors, logged.seen) for one, logged in recorded.items()]
        tasks = range_tasks(
            [(one["executor"], one["end"] - one["start"]) for one in told], {one.id: one.slots for one in executors.values()}
        )
        return {
            "ranges": [one | {"task": task} for one, task in zip(told, tasks, strict=True)],
            "queues": {queue: {**address, "query": self._query.known[queue]} for queue, address in addresses.items()},
        }

    def _tell(self, text: str, *arguments: object) -> None:
        now = self._context.clock()
        if now - self._told > _TOLD_EVERY:
            self._told = now
            log.info(text, *arguments)


def _named(partitions: Sequence[Partition], most: int = 10) -> str:
    """Some of them, for people."""
    named = ", ".join(f"{queue}/{number}" for queue, number in partitions[:most])
    return named + (f" and {len(partitions) - most:,} more" if len(partitions) > most else "")


def _examples(todo: Sequence[Range], most: int = 3) -> str:
    named = ", ".join(f"{one.partition.queue}/{one.partition.number} {one.start + 1} to {one.end}" for one in todo[:most])
    return named + (", …" if len(todo) > most else "")
