"""A stream of the source: plans one query's batches over the group's queues."""

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from baton.model.ids import MemberId, Partition, QueueName
from baton.model.wording import counted, first_of
from baton.queues.logged_ranges import LaterQuery
from baton.spark.batch_search import BatchSearch
from baton.spark.context import FleetContext
from baton.spark.executors import Executor
from baton.spark.finishing import PlannedBatch
from baton.spark.ledger import PartitionGrant
from baton.spark.offsets import AskAgain, Positions, SourceError, StreamOptions, log_ids, of_these_queues, parse_offset
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

# -- the query of a stream: a source gets the options of `load()`, not those of `writeStream`


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """The query that a stream is part of."""

    id: str
    alone: bool = True
    """Whether this is its only source. Other sources would have to wait while this one waits for entries."""


def running_query(text: str) -> RunningQuery:
    """Parse the JSON of RunningQuery.java. Raises SourceError for a query that would lose rows or never read any."""
    facts = json.loads(text)
    if facts.get("asyncProgress"):
        raise SourceError(
            "the query has asyncProgressTrackingEnabled, which logs a batch as done before it is done: rows could be lost. "
            "Remove this option from writeStream"
        )
    if facts.get("once"):
        raise SourceError(
            "the query has the trigger once, which runs a single batch, and the first batch of a query has no rows: it only "
            "records where the query begins. Use trigger(availableNow=True), which reads all existing entries and ends"
        )
    batch, batch_of_files = facts.get("batch", -1), facts.get("batchOfFiles", -1)
    if batch_of_files > batch:
        raise SourceError(
            f"the folder that the query writes to has batches up to {batch_of_files}, and its checkpoint only up to {batch}. "
            "Spark's file sink skips batches that the folder already has, and rows would be lost. Use another path, or the "
            "checkpoint that belongs to these files"
        )
    return RunningQuery(facts["id"], facts.get("sources", 1) <= 1)


# -- the query's number at each queue, and ranges that earlier queries left unfinished

_BEGIN_AGAIN = 1.0
"""Seconds until a queue that was unreachable is asked for a number again."""
_SETTLE_EVERY = 30.0
"""Seconds."""


class QueryNumbers:
    """The query's number at each queue. Used by the stream's thread only."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self.known: Mapping[QueueName, int] = {}
        """The number at each queue that has answered."""
        self.log_ids: Mapping[QueueName, str] = {}
        """The logs of those queues (`LoggedRanges.log_id`)."""
        self._again = self._settled = context.clock()

    def begin(self, start: Positions, ids: Mapping[QueueName, str]) -> None:
        """Take a number from each queue that answers, and finish there what the previous query logged as done but did not
        finish. While the Lease has lapsed, take none: that would end the query of the driver that may hold it now. Without a
        checkpoint all queues must give a number: raises QueueAwayError. Raises SourceError if `start` has positions in another
        log (`ids`)."""
        names, now = self._context.queues.names, self._context.clock()
        if names == self.known.keys() or (start and now < self._again):
            return
        self._again = now + _BEGIN_AGAIN
        found = {} if self._context.lapsed() else self._context.queues.begin(names - self.known.keys())
        for queue, number in found.items():
            log_id = self._context.queues.log_id(queue)
            if ids.get(queue, log_id) != log_id:
                raise SourceError(
                    f"the checkpoint has positions in another topic of queue {queue}: the topic was deleted and recreated, or "
                    "the checkpoint belongs to another queue of this name. Use a new checkpoint"
                )
            self.log_ids = {**self.log_ids, queue: log_id} if log_id else self.log_ids
            with suppress(QueueAwayError):
                self._context.queues.finish({queue: number}, {one: end for one, end in start.items() if one.queue == queue})
                self.known = {**self.known, queue: number}
        if not start and names != self.known.keys():
            raise QueueAwayError

    def settle(self, start: Positions) -> None:
        """Finish everything up to `start` again every 30 s, because a failover may have lost that it was finished.

        Otherwise an idle partition would never be finished again, and a partition being emptied would stay. Skips a queue that
        does not answer, or at which a batch is being finished."""
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
"""Seconds to wait for entries before answering that there are none. Spark asks again after 10 ms."""
IDLE_BESIDE_OTHERS = 0.02
"""The same in a query with other sources: Spark asks them one after the other, and they may have rows."""
_SHARE_BESIDE_OTHERS = 0.05
"""In such a query, the largest share of the time spent on looking for entries."""
_OWNERS_AGAIN = 200
_QUEUE_AGAIN = 500
_SOON_AGAIN = 20
_STOPPING_AGAIN = 100
"""Milliseconds until Spark asks again, by the reason of the wait."""
_LOG_EVERY = 30.0
"""Seconds."""


class Stream:
    """Plans the batches of one query. For the query's thread; other threads may call `done` and `stop`.

    `latest_offset`, `plan` and `prepare_available_now` raise AskAgain while they wait for a queue or an owner, and SourceError.
    """

    def __init__(self, name: str, query: RunningQuery, place: str, options: StreamOptions, context: FleetContext) -> None:
        """`place`: the source's folder in the query's checkpoint."""
        self.name, self.query_id, self.place = name, query.id, place
        self._alone = query.alone
        self.held = False
        """Whether the fleet stops and Spark's thread is kept waiting, so that no batch runs or begins."""
        self.last_plan = ""
        """Description of the batch that was planned last."""
        self._options, self._context = options, context
        self._query = QueryNumbers(context)
        self._search = BatchSearch(options, context)
        self._lock = threading.Lock()
        self._chosen: PlannedBatch | None = None
        """The batch that `latest_offset` chose and Spark has not planned yet."""
        self._planned: PlannedBatch | None = None
        self.log_ids: Mapping[QueueName, str] = {}
        """The logs in which the last offset has its positions."""
        self.position: Positions = {}
        """The offset up to which Spark has reported everything done."""
        self._recorded: Recorded = {}
        """The ranges of the planned batch."""
        self.unfinished: tuple[Mapping[QueueName, int], tuple[Range, ...]] = {}, ()
        """After `stop`: the query's numbers, and the ranges of the unfinished batch if all of them could be read. Empty in a
        query with other sources, because their rows may have failed the batch."""
        self._waits: tuple[Positions, float] | None = None
        """The end of the batch that waits for owners, and since when."""
        self._lent: Positions | None = None
        """The end of the batch that no longer waits for owners."""
        self._logged = 0.0
        self._nothing: tuple[str, float, float] | None = None
        """In a query with other sources: an offset after which there were no entries, the time of the next look, and how long
        the last look took."""

    def prepare_available_now(self) -> None:
        """Make the query end after the entries that exist now."""
        try:
            self._search.target = {partition: bounds.last for partition, bounds in self._context.queues.positions().items()}
        except QueueAwayError:
            raise AskAgain(_QUEUE_AGAIN) from None

    def latest_offset(self, text: str) -> Positions:
        """Return the end of the next batch, which begins at the offset `text`; the same offset if there is nothing to read."""
        self._check()  # before a number is taken, which would end the query of the group's current driver
        if self._nothing is not None and self._nothing[0] == text and self._context.clock() < self._nothing[1]:
            self._context.sleep(min(IDLE, max(IDLE_BESIDE_OTHERS, self._nothing[2])))
            return parse_offset(text)
        start = self._parsed(text)
        self.done(start)  # Spark asks for more only after it has logged everything up to here as done
        self._drop_chosen()
        self._hold()  # before any wait for a queue
        try:
            self._query.begin(start, log_ids(text))
            self.log_ids = {**log_ids(text), **self._query.log_ids}
            if entered := self._entering(start):
                if (later := self._context.queues.fence(self._query.known, entered)) is not None:
                    raise superseded(later)  # the later query may use the same checkpoint
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
            if deadline is None:  # set after the first look, so that notices of new entries are read at least once
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
        """Record a batch's ranges at their queues, and return them with their owners. `batch`: Spark's number, for the log."""
        start, end = self._parsed(start_text), self._parsed(end_text)
        self._check()
        todo = ranges(start, end)
        ends = {one.partition: one.end for one in todo}
        known = next((one for one in (self._chosen, self._planned) if one is not None and one.ends == ends), None)
        if known is None:
            self.done(start)
            self._drop_chosen()
            self._hold()  # the next driver repeats this batch anyway
        executors = self._context.executors()
        try:
            self._query.begin(start, log_ids(end_text))
            queues = {one.partition.queue for one in todo}
            if not queues <= self._query.known.keys():
                raise AskAgain(_QUEUE_AGAIN)
            if not self._context.finishing.settled(queues):
                raise AskAgain(_SOON_AGAIN)  # the ranges before these are still being finished
            self._query.settle(start)
            addresses = {queue: self._context.queues.address(queue) for queue in queues}
            if known is None:
                self._await_owners(todo, executors, end, batch)
            if known is None or known is not self._planned:  # Spark plans a batch twice, for foreachBatch
                with self._context.counts.step("log"):
                    self._recorded = record_ranges(
                        self._context.queues,
                        self._query.known,
                        todo,
                        self._context.counts,
                        fail_on_data_loss=self._options.fail_on_data_loss,
                    )
        except QueueAwayError:
            if known is not self._planned and self._context.stopping():  # not begun: the next driver repeats the batch
                self._drop_chosen()
                self._hold()
            raise AskAgain(_QUEUE_AGAIN) from None
        grants = known.grants if known is not None else frozenset(self._take(ends))
        with self._lock:
            self._planned = PlannedBatch(self.name, self._query.known, ends, grants, batch)
            self._chosen = self._waits = None
        self._search.served(ends)
        some = ", ".join(map(str, todo[:3])) + (", …" if len(todo) > 3 else "")
        rows = f"of {counted(len(todo), 'range')} ({some})" if todo else "without rows"
        self.last_plan = f"batch {batch or '(number unknown)'} {rows}"
        return self._reading_plan(executors, grants, addresses)

    def done(self, position: Positions) -> None:
        """Finish the planned batch if it ends at or before this offset, up to which Spark has logged everything as done."""
        with self._lock:
            self.position = position
            batch = self._planned
            if batch is None or any(position.get(partition, -1) < end for partition, end in batch.ends.items()):
                return
            self._planned = None
        self._context.finishing.submit(batch)

    def stop(self) -> None:
        """End the stream. The next query reads the unfinished batch again."""
        self._drop_chosen()
        with self._lock:
            batch, self._planned = self._planned, None
        if batch is not None:
            reports = self._context.finishing.reported(batch)
            if self._alone and not any(report.how in (How.FAILED, How.REFUSED) for report in reports):
                self.unfinished = batch.query, tuple(self._recorded)
            self._context.grants_in_use.put_back(batch.grants)

    def rows_behind(self, positions: Positions) -> Mapping[Partition, int]:
        """Known number of entries of each partition after its position."""
        return self._search.last_entries.behind(positions)

    def metrics(self, consumed: Positions) -> Mapping[str, str]:
        """Return the source's metrics in the query's progress. Counts of ranges are over all finished batches."""
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
        """Whether a batch runs."""
        return self._planned is not None or self._chosen is not None

    # -- checks, and the first offset

    def _parsed(self, text: str) -> Positions:
        positions = parse_offset(text)
        of_these_queues(positions, self._context.queues.names, self._context.group)
        return positions

    def _check(self) -> None:
        if why := self._context.over():
            raise SourceError(why)

    def _hold(self) -> None:
        """Make Spark's thread wait if the fleet stops, so that no batch begins. Raises AskAgain."""
        if self._context.stopping():
            self.held = True
            raise AskAgain(_STOPPING_AGAIN)

    def _entering(self, start: Positions) -> Positions:
        """First positions of the partitions that the offset does not have yet. They have no rows in the batch that first names
        them, so that Spark logs where their reading begins."""
        if not start:
            return first_positions(self._options.starting, self._context.queues)
        existing = self._context.ledger.read().partitions | (self._search.target or {}).keys()
        asked = self._query.known.keys() - self._context.queues.late()
        missing = frozenset(one for one in existing - start.keys() if one.queue in asked)
        return committed_positions(missing, self._context.queues) if missing else {}

    def _drop_chosen(self) -> None:
        chosen, self._chosen = self._chosen, None
        if chosen is not None:
            self._context.grants_in_use.put_back(chosen.grants)

    def _await_target(self, start: Positions) -> None:
        """AvailableNow: wait for the owners and queues of unread partitions here, because Spark ends the query once an answer
        has no rows."""
        short = self._search.short(start)
        if short and not self._context.stopping():
            if (now := self._context.clock()) - self._logged > _LOG_EVERY:
                self._logged = now
                log.info("%s: waiting for the owners or queues of %s", self.name, _named(short))
            raise AskAgain(_SOON_AGAIN)  # `latest_offset` has already waited

    # -- the ranges of a batch

    def _await_owners(self, todo: list[Range], executors: Mapping[MemberId, Executor], end: Positions, batch: str) -> None:
        """Wait until a repeated batch has owners: after a restart of the driver the executors are new, and the ledger needs time
        to follow. After repeat_wait, other executors borrow the ranges without an owner."""
        found = owners(self._context.ledger.read().owners, executors, [one.partition for one in todo])
        missing = sorted(one.partition for one in todo if one.partition not in found)
        if missing:  # a partition that its queue no longer has gets no owner; it was emptied, such as by setting a batch aside
            existing = self._context.queues.positions({one.queue for one in missing})
            missing = [one for one in missing if one in existing]
        if not missing:
            return
        now = self._context.clock()
        if self._waits is None or self._waits[0] != end:
            self._waits = end, now
            log.info("repeated batch %s waits for the owners of %s", batch, _named(missing))
        if now - self._waits[1] < self._context.repeat_wait:
            raise AskAgain(_OWNERS_AGAIN)
        if self._lent != end:
            self._lent = end
            log.warning("repeated batch %s runs without the owners of %s: other executors read them", batch, _named(missing))

    def _take(self, ends: Mapping[Partition, int]) -> list[PartitionGrant]:
        return self._context.grants_in_use.take(lambda now: [now.owners[one] for one in ends if one in now.owners])

    def _reading_plan(
        self,
        executors: Mapping[MemberId, Executor],
        grants: frozenset[PartitionGrant],
        addresses: Mapping[QueueName, Mapping[str, Any]],
    ) -> dict[str, Any]:
        ledger, recorded = self._context.ledger.read(), self._recorded
        revoking = {one.partition: one for one in ledger.revoking & grants}
        owned = owners({**ledger.owners, **revoking}, executors, [one.partition for one in recorded])
        found = [placed(one, owned.get(one.partition), executors, logged.seen) for one, logged in recorded.items()]
        tasks = range_tasks(
            [(one["executor"], one["end"] - one["start"]) for one in found], {one.id: one.slots for one in executors.values()}
        )
        return {
            "ranges": [one | {"task": task} for one, task in zip(found, tasks, strict=True)],
            "queues": {queue: {**address, "query": self._query.known[queue]} for queue, address in addresses.items()},
        }


def _named(partitions: Iterable[Partition]) -> str:
    return first_of([f"{queue}/{number}" for queue, number in partitions], 10)
