"""The driver's side of the queues: it plans, waits and commits in the name of the members."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from baton.consumer.queue_requests import TOLD_AFTER, alike
from baton.model.ids import QueueName
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import QueueUnreachable
from baton.queues.spark_side import batch_reader
from baton.spark.batch import Range
from baton.spark.ownership import PartitionGrant
from baton.spark.reading import QueueAddress

log = logging.getLogger("baton.spark")

_AGAIN = 0.5
"""Seconds until a queue that is out of reach is asked again."""


class FleetQueues:
    """The fleet's queues, for the one thread that runs its batches."""

    def __init__(self, sources: Mapping[QueueName, QueueAddress]) -> None:
        self._readers = {name: batch_reader(source.url, source.queue, "driver") for name, source in sources.items()}
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(sources)), thread_name_prefix="baton-wait")
        self._unreachable: dict[QueueName, tuple[float, str]] = {}
        """Since when (monotonic), and why."""
        self._planned: set[PartitionGrant] = set()
        """With a plan that is not committed: its entries count for what its member may have."""

    @property
    def names(self) -> frozenset[QueueName]:
        """The queues that the fleet reads."""
        return frozenset(self._readers)

    def trouble(self) -> str:
        """What keeps the driver from its queues, where that is not over in a moment; empty: nothing. Any thread may ask."""
        told = time.monotonic() - TOLD_AFTER
        return " ".join(dict.fromkeys(why for _, (since, why) in sorted(self._unreachable.items()) if since <= told))

    def plan(
        self, grants: Iterable[PartitionGrant], limit: Callable[[PartitionGrant], int]
    ) -> tuple[list[Range], list[PartitionGrant]]:
        """A range for each grant under which there is something to read, recorded at its queue; and the grants under which there
        is nothing, or nothing more for that member. Of all others the queue cannot say: paused, not granted, out of reach.
        """
        found: list[Range] = []
        nothing: list[PartitionGrant] = []
        skipped: set[QueueName] = set()
        for grant in grants:
            if grant.queue in skipped:
                continue
            try:
                plan = self._readers[grant.queue].plan(grant.partition, grant.epoch, limit(grant), uid=grant.uid)
            except (StaleOwner, PartitionPaused) as error:
                log.debug("nothing to plan: %s", error)
            except QueueUnreachable as error:
                # The next partition would wait for the same timeout.
                skipped.add(grant.queue)
                self._lost(grant.queue, error)
            else:
                self._found(grant.queue)
                if plan is None:
                    nothing.append(grant)
                else:
                    self._planned.add(grant)
                    found.append(Range(grant, plan))
        return found, nothing

    def let_go(self, named: frozenset[PartitionGrant]) -> None:
        """The ledger names only these: what is planned under others counts no longer for what their members may have."""
        for grant in self._planned - named:
            self._readers[grant.queue].let_go(grant.partition, grant.epoch)
        self._planned &= named
        for queue in self._unreachable.keys() - {grant.queue for grant in named}:  # nobody asks it
            del self._unreachable[queue]

    def commit(self, one: Range, keep_trying: Callable[[], bool]) -> bool:
        """The range is done with. False: refused, for the partition has been granted on; what was planned comes again there.

        While the queue is out of reach this waits, as long as `keep_trying` says so.
        """
        grant = one.grant
        while True:
            try:
                self._readers[grant.queue].commit(grant.partition, grant.epoch, one.plan, uid=grant.uid)
            except StaleOwner as error:
                log.warning("%s: a commit was refused, its entries come again at their new owner: %s", grant.queue, error)
                return False
            except QueueUnreachable as error:
                self._lost(grant.queue, error)
                if not keep_trying():
                    return False
                time.sleep(_AGAIN)
            else:
                self._found(grant.queue)
                self._planned.discard(grant)
                return True

    def wait(self, grants: Iterable[PartitionGrant], seconds: float) -> None:
        """Until there may be something to plan under one of the grants, an `interrupt`, or for so long. Plan first."""
        of: dict[QueueName, list[int]] = {}
        for grant in grants:
            if grant.queue not in self._unreachable:
                of.setdefault(grant.queue, []).append(grant.partition)
        if self._unreachable:
            seconds = _AGAIN
        waiting = [self._pool.submit(self._readers[queue].wait, numbers, seconds) for queue, numbers in of.items()]
        done, others = wait(waiting, timeout=seconds, return_when=FIRST_COMPLETED)
        if others:
            self.interrupt()
            wait(others)
        if not of or any(future.exception() for future in done):
            time.sleep(_AGAIN)

    def interrupt(self) -> None:
        """End the wait that is going on, or the next one."""
        for reader in self._readers.values():
            reader.interrupt()

    def close(self) -> None:
        """Close the connections to all queues."""
        self._pool.shutdown(wait=True)
        for reader in self._readers.values():
            reader.close()

    def _lost(self, queue: QueueName, error: Exception) -> None:
        since, why = self._unreachable.get(queue, (time.monotonic(), ""))
        if not why:
            log.warning("queue %s is out of reach: %s", queue, error)
        self._unreachable[queue] = since, why if alike(why, str(error)) else str(error)

    def _found(self, queue: QueueName) -> None:
        if self._unreachable.pop(queue, None):
            log.info("queue %s answers again", queue)
