"""Working on a holding: read a little, hand it over entry by entry, acknowledge, and know when to stop."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from baton.consumer.holding import Holding, Phase
from baton.consumer.reader import Reader
from baton.model.ids import QueueName
from baton.queues.entry import Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

_SLICE = 0.25
"""Seconds of work to read at a time: what is in hand when a partition is called back delays its hand-off."""
_MOST = 100
_ACK_EVERY = 0.05
_SURE_FOR = 1.0
"""Seconds for which the queue's word that a partition is ours is taken: after a longer silence (a long handler, a stopped
process) it is asked before the next entry is begun."""
_LONGEST_REASON = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class _Outage(NamedTuple):
    """A queue that does not answer."""

    tries: int
    until: float
    """When it is asked again (monotonic)."""


class Work:
    """Applies one handler to the entries of holdings."""

    def __init__(self, handler: Callable[[Entry], None], interrupted: Callable[[], bool] = lambda: False) -> None:
        """`interrupted`: asked between two entries. True: stop there, for the ledger has changed or the end has come."""
        self._handler = handler
        self._interrupted = interrupted
        self._outages: dict[QueueName, _Outage] = {}
        self._per_entry = _SLICE
        """Seconds, a running average. Begins as if handlers were slow: the first read takes one entry."""

    def serve(self, holding: Holding, reader: Reader) -> bool:
        """Do what there is to do now, for about a slice. False: there was nothing."""
        now = time.monotonic()
        if now < self.not_before(holding) or not self._has_work(holding, reader):
            return False
        holding.served_at = now
        try:
            found = self._serve(holding, reader)
            self._outages.pop(holding.partition.queue, None)
            return found
        except StaleOwner as refusal:
            log.warning("%s/%d is lost: %s", *holding.partition, refusal)
            holding.end(Phase.FENCED, reader)
        except QueueUnreachable as problem:
            self._outage(holding.partition.queue, problem)
        return True

    def not_before(self, holding: Holding) -> float:
        """When there may be something to do for it again (monotonic): a queue that is away is waited for once, for all of its
        partitions."""
        outage = self._outages.get(holding.partition.queue)
        return holding.not_before if outage is None else max(holding.not_before, outage.until)

    def at_rest(self, holding: Holding, reader: Reader, now: float) -> bool:
        """There is nothing to do for it until its queue says so."""
        return self.not_before(holding) <= now and not self._has_work(holding, reader)

    def finish(self, holding: Holding, reader: Reader) -> None:
        """Time is up: acknowledge what is done, and let go. A queue that is away is not asked again."""
        try:
            if holding.partition.queue not in self._outages:
                self._acknowledge(holding, reader)
        except StaleOwner as problem:
            log.warning("%s/%d: %s", *holding.partition, problem)
        except QueueUnreachable as problem:
            self._outage(holding.partition.queue, problem)
        holding.end(Phase.RELEASED, reader)

    def _has_work(self, holding: Holding, reader: Reader) -> bool:
        """A wake-up for one partition must not cost a question for each of the others."""
        in_hand = holding.entries or holding.handled or holding.phase is Phase.LETTING_GO
        return bool(in_hand) or reader.ready(holding.partition.number, holding.epoch)

    def _serve(self, holding: Holding, reader: Reader) -> bool:
        number, epoch = holding.partition.number, holding.epoch
        if not holding.entries:
            self._acknowledge(holding, reader)
            letting_go = holding.phase is Phase.LETTING_GO
            if letting_go and holding.read_before:
                holding.end(Phase.RELEASED, reader)
                return True
            try:
                found = reader.read(number, epoch, self._count(), new=not letting_go)
            except PartitionPaused:
                # The queue knows of a hand-off before the ledger has arrived (a pod that terminates never sees it).
                holding.end(Phase.RELEASED, reader)
                return True
            holding.sure_at = time.monotonic()
            holding.failures = 0
            holding.entries.extend(found)
            holding.read_before = holding.read_before or not letting_go or not found
            if not found:
                return letting_go
        self._work_through(holding, reader)
        return True

    def _work_through(self, holding: Holding, reader: Reader) -> None:
        try:
            self._handle_entries(holding, reader)
        except BaseException as end:
            # The handler ends the process (sys.exit): what it has handled is acknowledged first.
            if not isinstance(end, Exception):
                self._acknowledge(holding, reader)
            raise
        self._acknowledge(holding, reader)

    def _handle_entries(self, holding: Holding, reader: Reader) -> None:
        acknowledged_at = time.monotonic()
        while holding.entries:
            now = time.monotonic()
            if now - holding.sure_at > _SURE_FOR:
                reader.verify(holding.partition.number, holding.epoch)
                holding.sure_at = time.monotonic()
            if holding.failed is not None and not self._again(holding, reader):
                continue
            if not self._handle(holding):
                break
            if time.monotonic() - acknowledged_at > _ACK_EVERY:
                self._acknowledge(holding, reader)
                acknowledged_at = time.monotonic()
            if self._interrupted():
                break

    def _again(self, holding: Holding, reader: Reader) -> bool:
        """Have the queue count that the entry is tried once more. False: it was tried too often, and is a dead letter now."""
        entry, why = holding.entries[0], holding.failed or ""
        again = reader.retry(holding.partition.number, holding.epoch, entry.offset, why)
        holding.sure_at = time.monotonic()
        holding.failed = None
        if again:
            holding.entries[0] = replace(entry, redelivered=True)
        else:
            log.error("%s/%d entry %s is set aside as a dead letter: %s", *holding.partition, entry.offset, why)
            holding.entries.popleft()
            holding.failures = 0
        return again

    def _handle(self, holding: Holding) -> bool:
        entry = holding.entries[0]
        begun = time.monotonic()
        try:
            self._handler(entry)
        except Exception as error:
            holding.failed = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
            log.exception("the handler failed on %s/%d entry %s; it is tried again", *holding.partition, entry.offset)
            if holding.phase is Phase.LETTING_GO:
                holding.entries.clear()  # its next owner gets it, marked redelivered
                holding.failed = None
            else:
                self._pause(holding)
            return False
        self._per_entry += 0.2 * (time.monotonic() - begun - self._per_entry)
        holding.entries.popleft()
        holding.handled.append(entry.offset)
        holding.failures = 0
        return True

    def _acknowledge(self, holding: Holding, reader: Reader) -> None:
        if holding.handled:
            reader.ack(holding.partition.number, holding.epoch, holding.handled)
            holding.sure_at = time.monotonic()
            holding.handled.clear()

    def _outage(self, queue: QueueName, problem: QueueUnreachable) -> None:
        tries = self._outages[queue].tries + 1 if queue in self._outages else 1
        if tries == 1:
            log.warning("%s", problem)
        self._outages[queue] = _Outage(tries, time.monotonic() + _backoff(tries))

    def _count(self) -> int:
        return max(1, min(_MOST, int(_SLICE / max(self._per_entry, 1e-6))))

    def _pause(self, holding: Holding) -> None:
        holding.failures += 1
        holding.not_before = time.monotonic() + _backoff(holding.failures)


def _backoff(tries: int) -> float:
    """Seconds until the next try."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10))
