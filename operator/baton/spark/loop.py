"""One batch after the other: plan at the queues, read on the owners, call the user's function, commit."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession

from baton.model.ids import MemberId, QueueName
from baton.model.wording import counted
from baton.queues.entry import Plan
from baton.spark.batch import Range, in_turn, part_of, plannable, tasks
from baton.spark.batch_frame import Read, batch_frame, materialise
from baton.spark.executors import Executors
from baton.spark.grants_in_use import GrantsInUse
from baton.spark.journal import Begun, Journal
from baton.spark.ledger_view import LedgerView
from baton.spark.locality import Executor, by_pod
from baton.spark.ownership import PartitionGrant
from baton.spark.queues import FleetQueues
from baton.spark.receipts import ReadOutcome, Receipt, verdicts
from baton.spark.statistics import Counts

log = logging.getLogger("baton.spark")

_IDLE = 5.0
_BREATH = 0.01
_PARKED = 0.2
"""Between the empty batches of a query that is about to be stopped."""

Process = Callable[[DataFrame, int], None]
"""The user's function: the rows of a micro-batch, and its id in the query."""


class Trigger(Protocol):
    """The frame with which Spark calls: its session is all that is looked at."""

    @property
    def sparkSession(self) -> SparkSession: ...  # noqa: N802 - Spark's name


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch takes, and how long things are waited for (seconds)."""

    entries: int
    """Of one partition in one batch."""
    tasks_per_executor: int
    repeat_wait: float
    """How long a batch that is repeated waits for owners of all the partitions that it had."""


class Loop:
    """What `foreachBatch` calls. Runs in one thread at a time."""

    def __init__(
        self,
        process: Process,
        *,
        queues: FleetQueues,
        ledger: LedgerView,
        grants_in_use: GrantsInUse,
        executors: Executors,
        journal: Journal,
        receipts: "Accumulator[list[Receipt]]",
        read: Read,
        counts: Counts,
        limits: Limits,
    ) -> None:
        self._process = process
        self._queues, self._ledger, self._grants_in_use, self._executors = queues, ledger, grants_in_use, executors
        self._journal, self._receipts, self._read, self._counts, self._limits = journal, receipts, read, counts, limits
        self._ahead: dict[PartitionGrant, Plan] = {}
        """Planned while a batch was repeated that had no place for it."""
        self._served: dict[tuple[QueueName, int], int] = {}
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._running = threading.Lock()
        ledger.on_change(self.look_up)

    def look_up(self) -> None:
        """Something has changed that the loop does not see by itself: the ledger, or the executors."""
        self._changed.set()
        self._queues.interrupt()

    def stop(self, seconds: float = -1) -> None:
        """Take no further batch; returns when the one that runs is over, or after so many seconds."""
        self._stopping.set()
        self.look_up()
        if self._running.acquire(timeout=seconds):
            self._running.release()

    def __call__(self, clock: Trigger, batch_id: int) -> None:
        """Wait until there is something to read, and see it through. `clock` is the reason of the call; its rows mean nothing."""
        with self._running:
            begun = self._journal.begun(batch_id)
            fleet, ranges = self._next(batch_id) if begun is None else self._repeat(batch_id, begun)
            try:
                if ranges:
                    if begun is None:
                        self._journal.begin(batch_id, ranges)
                    self._run(clock.sparkSession, batch_id, fleet, ranges)
            finally:
                self._grants_in_use.put_back([one.grant for one in ranges])

    def _next(self, batch_id: int) -> tuple[Mapping[MemberId, Executor], list[Range]]:
        """What the queues have for anybody who is there, as soon as there is anything."""
        while not self._stopping.is_set():
            fleet, grants = self._take(None)
            ranges, _ = self._plan(in_turn(grants, self._served), lambda grant: self._limits.entries)
            planned = {one.grant for one in ranges}
            self._grants_in_use.put_back([grant for grant in grants if grant not in planned])
            if ranges:
                self._served |= {(one.grant.queue, one.grant.partition): batch_id for one in ranges}
                return fleet, ranges
            self._idle(grants)
        time.sleep(_PARKED)
        return {}, []

    def _repeat(self, batch_id: int, begun: Begun) -> tuple[Mapping[MemberId, Executor], list[Range]]:
        """The rows that this batch had when it was begun, as far as they are not committed.

        Waits for owners of its partitions: after a restart of the driver the executors are new, and the ledger has to be.
        """
        log.info("batch %d was begun before: repeating it (%s)", batch_id, counted(len(begun), "partition"))
        ranges: dict[PartitionGrant, Range] = {}
        open_ = dict(begun)
        until = time.monotonic() + self._limits.repeat_wait
        fleet: dict[MemberId, Executor] = {}
        while open_ and not self._stopping.is_set() and time.monotonic() < until:
            there, grants = self._take(frozenset(open_))
            fleet |= there
            found, nothing = self._plan(grants, lambda grant: begun[grant.queue, grant.partition].count)
            for one in found:
                if part_of(one.plan, open_.pop((one.grant.queue, one.grant.partition))):
                    ranges[one.grant] = one
                else:  # it is committed: this is what comes after it
                    self._ahead[one.grant] = one.plan
            for grant in nothing:
                del open_[grant.queue, grant.partition]
            self._grants_in_use.put_back([grant for grant in grants if grant not in ranges])
            if open_:
                self._changed.wait(0.2)
                self._changed.clear()
        if self._stopping.is_set():
            # Not an empty batch: Spark would take it for the whole, and give its id to nothing else.
            raise RuntimeError(f"the query was stopped before batch {batch_id} could be repeated")
        if open_:
            log.warning("batch %d is repeated without %s: nobody owns them", batch_id, sorted(open_))
        return fleet, list(ranges.values())

    def _take(self, only: frozenset[tuple[QueueName, int]] | None) -> tuple[Mapping[MemberId, Executor], list[PartitionGrant]]:
        fleet = by_pod(self._executors.registered())
        recorded = self._ledger.read().ownership()
        self._queues.let_go(recorded.owned | recorded.revoking)
        return fleet, self._grants_in_use.take(lambda owned: plannable(owned, fleet, self._queues.names, only))

    def _plan(
        self, grants: list[PartitionGrant], limit: Callable[[PartitionGrant], int]
    ) -> tuple[list[Range], list[PartitionGrant]]:
        ahead = [Range(grant, self._ahead.pop(grant)) for grant in grants if grant in self._ahead]
        known = {one.grant for one in ahead}
        found, nothing = self._queues.plan([grant for grant in grants if grant not in known], limit)
        return ahead + found, nothing

    def _idle(self, grants: list[PartitionGrant]) -> None:
        """Until an entry arrives, or there is a reason to look up."""
        began = time.monotonic()
        if grants:
            self._queues.wait(grants, _IDLE)
        else:
            self._changed.wait(_IDLE)
        if time.monotonic() - began < _BREATH:  # whatever woke us may not be for us: do not spin over it
            time.sleep(_BREATH)
        self._changed.clear()

    def _run(self, session: SparkSession, batch_id: int, fleet: Mapping[MemberId, Executor], ranges: list[Range]) -> None:
        token = f"{batch_id}-{secrets.token_hex(4)}"
        entries = self._ledger.read().entries
        generations = {member: entry.generation for member, entry in entries.items()}
        todo = tasks(ranges, fleet, generations, self._limits.tasks_per_executor)
        self._receipts.value = []
        rows = batch_frame(session, todo, token, self._read)
        try:
            materialise(rows)
            first = self._verdicts(token, ranges)
            self._counts.read(first.values())
            self._tell_refusals(batch_id, ranges, first)
            if any(receipt.outcome is ReadOutcome.READ for receipt in first.values()):
                self._process(rows, batch_id)
            self._commit(ranges, first, self._verdicts(token, ranges))
        finally:
            rows.unpersist()

    def _verdicts(self, token: str, ranges: list[Range]) -> Mapping[int, Receipt]:
        return verdicts(len(ranges), [receipt for receipt in self._receipts.value if receipt.batch == token])

    def _commit(self, ranges: list[Range], first: Mapping[int, Receipt], last: Mapping[int, Receipt]) -> None:
        for index, one in enumerate(ranges):
            if last[index].outcome is ReadOutcome.READ:
                done = self._queues.commit(one, lambda: not self._stopping.is_set())
                self._counts.add("ranges_committed" if done else "commits_refused")
            elif first[index].outcome is ReadOutcome.READ:
                self._counts.add("ranges_lost")
                log.warning("%s/%d was lost with its executor and comes again", one.grant.queue, one.grant.partition)
            self._grants_in_use.put_back([one.grant])

    def _tell_refusals(self, batch_id: int, ranges: list[Range], receipts: Mapping[int, Receipt]) -> None:
        for index, receipt in receipts.items():
            if receipt.outcome is not ReadOutcome.READ:
                grant = ranges[index].grant
                log.info("batch %d: %s/%d was not read (%s) and comes again: %s",
                         batch_id, grant.queue, grant.partition, receipt.outcome, receipt.detail)  # fmt: skip
