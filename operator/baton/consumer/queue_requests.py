"""Requests of the consumer's loop to the queues: reading, acknowledging, retrying, verifying."""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from math import inf
from typing import cast

from baton.consumer.entry import HeldEntry
from baton.consumer.partition import EntrySequence, HeldPartition, Outage, Phase, backoff
from baton.model.ids import QueueName
from baton.model.wording import one_line
from baton.queues.consumer_side import Reader, TransactionalReader
from baton.queues.entry import Entries
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

log = logging.getLogger(__name__)

_SLICE = 0.25
"""Seconds of work to read at a time: entries in hand delay the hand-off of a revoked partition."""
_MOST = 200
SLICE_BYTES = 8_000_000
_MOST_BYTES = 64_000_000
"""Maximum bytes that a batch without a byte limit reads at once."""
_SAMPLE = 20
"""Number of entries of a read whose size is measured."""
TOLD_AFTER = 5.0
"""Seconds of an outage after which the session reports it."""


class QueueRequests:
    """Sends requests for held partitions. A rejection or an outage ends or delays only the partitions concerned."""

    def __init__(self) -> None:
        self._outages: dict[QueueName, Outage] = {}
        self.per_entry = _SLICE
        """Running average of the seconds that a handler takes. Starts high, so that the first read takes one entry."""
        self._size: float | None = None
        """Running average of the bytes of an entry; None: no entry was read yet."""
        self._read = 0
        """Number of entries read so far."""
        self.asking_since: float | None = None
        """When the pending request was sent (monotonic); None: none is pending."""

    def record_duration(self, seconds: float, count: int) -> None:
        """Record how long handlers took for how many entries."""
        if count:
            self.per_entry += (1 - 0.8**count) * (seconds / count - self.per_entry)

    def read(self, holding: HeldPartition, reader: Reader, most: int, most_bytes: float = SLICE_BYTES) -> bool:
        """Read entries within these limits, but one at least. Returns False if there were none."""
        number, epoch = holding.partition.number, holding.epoch
        new = holding.phase is Phase.SERVING
        found = True

        def read() -> None:
            nonlocal found
            try:
                entries = Entries.of(reader.read(number, epoch, most, most_bytes=int(min(most_bytes, _MOST_BYTES)), new=new))
            except PartitionPaused:
                # The queue knows of a hand-off before the ledger arrives here (a terminating pod never sees it).
                holding.revoke()
                holding.read_before = True
                return
            holding.take_in(entries, self._read)
            holding.read_before = holding.read_before or new or not entries
            self._read += len(entries)
            if entries:
                self._measure(entries)
            found = bool(entries) or not new

        self._ask(holding, reader, read)
        return found

    def settle(self, holding: HeldPartition, reader: Reader) -> bool:
        """Send acknowledgements and dead letters. Returns False if the queue does not have all of them, or the partition is
        lost."""
        if not holding.settled:
            if not self._ask(holding, reader, lambda: _acknowledge(holding, reader), alone=bool(holding.together)):
                return False
            if holding.aside and not self._ask(holding, reader, lambda: _set_aside(holding, reader), alone=True):
                return False
        holding.acknowledged(taken=True)
        return True

    def may_begin(self, sequence: EntrySequence, reader: Reader) -> bool:
        """Return whether the first waiting entry may be handed out. Verifies the ownership unless it is sure, and has the queue
        count the retry of an entry that has failed."""
        if not sequence.waiting:
            return False  # the partition was lost by the request for another sequence
        holding, first = sequence.holding, sequence.waiting[0]
        failure = sequence.failed.get(first.offset)
        if failure is None and holding.is_sure:
            return True
        if time.monotonic() < self.not_before(holding):
            return False  # the queue has just not answered for another sequence
        if failure is not None:
            answered = self._ask(holding, reader, lambda: _again(sequence, reader, first, failure.why), alone=True)
        else:
            answered = self.verify(holding, reader)
        return answered and bool(sequence.waiting) and sequence.waiting[0].offset not in sequence.failed

    def begin_again(self, sequence: EntrySequence, reader: Reader) -> bool:
        """Return whether the first waiting entry, a leftover, may be handed out. Has the queue count the delivery, if it counts
        them."""
        holding, first = sequence.holding, sequence.waiting[0]
        number, epoch = holding.partition.number, holding.epoch
        count = getattr(reader, "begin_again", None)

        def begin() -> None:
            if count is None:
                reader.verify(number, epoch)
            elif not count(number, epoch, first.offset, first.times):
                log.error("%s/%d entry %s was finished, or is a dead letter now", *holding.partition, first.offset)
                sequence.waiting.popleft()

        answered = self._ask(holding, reader, begin, alone=True)
        return answered and bool(sequence.waiting) and sequence.waiting[0] is first

    def verify(self, holding: HeldPartition, reader: Reader) -> bool:
        """Ask the queue whether the partition is still ours. Returns False if it is not, or the queue does not answer."""
        return self._ask(holding, reader, lambda: reader.verify(holding.partition.number, holding.epoch))

    def keep(self, holding: HeldPartition, reader: Reader) -> bool:
        """Have the queue treat the partition as in use until it is released, if the queue needs that. Returns False if the queue
        does not answer, or the partition is not ours."""
        keep = getattr(reader, "keep", None)
        if keep is None:
            return True
        if time.monotonic() < self.not_before(holding):
            return False
        return self._ask(holding, reader, lambda: keep(holding.partition.number, holding.epoch))

    def stay_sure(self, holding: HeldPartition, reader: Reader) -> None:
        """Verify the ownership while a worker takes long. If the partition is revoked, first flush its acknowledgements: there
        may be no time for them with the last entry."""
        if holding.releasing:
            self._ask(holding, reader, lambda: reader.ack(holding.partition.number, holding.epoch, []))
        if not holding.over and time.monotonic() >= self.not_before(holding):
            self.verify(holding, reader)

    def release_again(
        self, problems: Mapping[HeldPartition, QueueUnreachable], reader_of: Callable[[HeldPartition], Reader]
    ) -> None:
        """Schedule another release of partitions whose queues have not accepted it, at once or when the queue answers. Partitions
        that the queue never confirmed are not verified: they may still be taken up, and verifying would wait for that."""
        asked: set[QueueName] = set()
        for holding, problem in problems.items():
            queue = holding.partition.queue
            if holding.sure_at and queue not in asked:
                asked.add(queue)
                self.verify(holding, reader_of(holding))
            if not holding.over and not self.away(queue):
                of_all = isinstance(problem, PartitionUnavailable)
                holding.outage = _outage(holding.outage, problem)._replace(of_all=of_all)

    def slice(self, workers: int = 1) -> int:
        """Return how many entries to read at a time for this number of workers."""
        return max(1, workers, min(_MOST, self.within(SLICE_BYTES), int(workers * _SLICE / max(self.per_entry, 1e-6))))

    def within(self, size: float) -> int:
        """Return about how many entries have this size, one at least."""
        if self._size is None:
            return _MOST if size == inf else 1
        return int(max(1.0, min(size, _MOST_BYTES) / self._size))

    def _measure(self, entries: Entries) -> None:
        some = slice(None, None, len(entries) // _SAMPLE + 1)
        sizes = [len(key or b"") + len(value or b"") for key, value in zip(entries.keys[some], entries.values[some], strict=True)]
        size = sum(sizes) / len(sizes)
        self._size = max(size if self._size is None else 0.5 * (self._size + size), 1.0)

    def has_work(self, holding: HeldPartition, reader: Reader) -> bool:
        """Return whether the partition may have entries, without a request to a server."""
        if holding.sequences and holding.waiting:
            return True
        if holding.phase is not Phase.SERVING:
            return not holding.read_before
        return reader.ready(holding.partition.number, holding.epoch)

    def not_before(self, holding: HeldPartition) -> float:
        """Return when the next request for the partition is due (monotonic). An unreachable queue delays all its partitions."""
        if not self._outages and holding.outage is None:  # the usual case
            return 0.0
        both = self._outages.get(holding.partition.queue), holding.outage
        return max((outage.until for outage in both if outage is not None), default=0.0)

    def retry_at(self, after: float) -> float:
        """Return when the next request to an unreachable queue is due (monotonic)."""
        return min((outage.until for outage in self._outages.values() if outage.until > after), default=inf)

    def away(self, queue: QueueName) -> bool:
        """Return whether the queue did not answer the last request."""
        return queue in self._outages

    def trouble(self, holdings: Iterable[HeldPartition]) -> str:
        """Return the errors of the queues of these partitions that have lasted for a while; empty: none."""
        before, held = time.monotonic() - TOLD_AFTER, [holding for holding in holdings if not holding.over]
        lasting = {queue: outage.why for queue, outage in self._outages.items() if outage.since <= before}
        concerned = {holding.partition.queue for holding in held} if lasting else set()
        alone = [one.outage.why for one in held if one.outage is not None and one.outage.since <= before]
        return " ".join(dict.fromkeys([*(lasting[queue] for queue in sorted(lasting.keys() & concerned)), *alone]))

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Mark a request as pending that queues may take long to answer."""
        before, self.asking_since = self.asking_since, time.monotonic()
        try:
            yield
        finally:
            self.asking_since = before

    def _ask(self, holding: HeldPartition, reader: Reader, request: Callable[[], object], *, alone: bool = False) -> bool:
        """Send a request for a partition, and record its result. Returns False if the queue does not answer, or rejects it.
        `alone`: a dead letter, a failure or a transaction, which a queue may reject although it answers; then only this partition
        waits."""
        queue = holding.partition.queue
        before, self.asking_since = self.asking_since, time.monotonic()  # as in `asked`, which is slower
        try:
            request()
            holding.sure_at = reader.sure_at(holding.partition.number)
            self._answered(queue)
            if alone or (holding.outage is not None and holding.outage.of_all):
                holding.outage = None
            return True
        except StaleOwner as refusal:
            self._answered(queue)
            if holding.in_hand or not holding.settled or refusal.other_process:
                log.warning("%s/%d is lost: %s", *holding.partition, refusal)
            else:  # the next owner began before the revocation arrived here
                log.info("%s/%d is handed off: %s", *holding.partition, refusal)
            holding.superseded = str(refusal) if refusal.other_process else ""
            holding.lose(reader)
        except PartitionUnavailable as problem:
            self._answered(queue)
            holding.outage = _outage(holding.outage, problem)._replace(of_all=not alone)
        except QueueUnreachable as problem:
            if not alone:
                self._outages[queue] = _outage(self._outages.get(queue), problem)
            else:
                self.verify(holding, reader)
                if not self.away(queue):
                    holding.outage = _outage(holding.outage, problem)
        finally:
            self.asking_since = before
        return False

    def _answered(self, queue: QueueName) -> None:
        if (outage := self._outages.pop(queue, None)) is not None:
            log.info("queue %s answers again, after %.0f s", queue, time.monotonic() - outage.since)


def _outage(before: Outage | None, problem: QueueUnreachable) -> Outage:
    """Return the outage after one more failed request."""
    now = time.monotonic()
    tries, since = (before.tries + 1, before.since) if before else (1, now)
    if tries == 1:
        log.warning("%s", problem)
    why = before.why if before and alike(before.why, str(problem)) else str(problem)
    return Outage(tries, now + backoff(tries), since, why)


def _acknowledge(holding: HeldPartition, reader: Reader) -> None:
    number, epoch, soon = holding.partition.number, holding.epoch, not holding.receipts
    if not holding.handled:
        return
    if holding.together:
        cast("TransactionalReader", reader).ack(number, epoch, holding.handled, soon=soon, together=holding.together)
    else:
        reader.ack(number, epoch, holding.handled, soon=soon)


def _set_aside(holding: HeldPartition, reader: Reader) -> None:
    while holding.aside:
        offset, why = holding.aside[0]
        reader.set_aside(holding.partition.number, holding.epoch, offset, why)
        log.error("%s/%d entry %s moved to dead letters: %s", *holding.partition, offset, one_line(why, 500))
        holding.aside.pop(0)


def _again(sequence: EntrySequence, reader: Reader, entry: HeldEntry, why: str) -> None:
    """Have the queue count a retry of the entry, which becomes a dead letter if it failed too often."""
    holding = sequence.holding
    again = reader.retry(holding.partition.number, holding.epoch, entry.offset, why)
    sequence.failed.pop(entry.offset, None)
    if again:
        sequence.waiting[0] = redelivered = copy(entry)
        redelivered.redelivered = True
    else:
        log.error("%s/%d entry %s moved to dead letters: %s", *holding.partition, entry.offset, one_line(why, 500))
        sequence.waiting.popleft()
        sequence.tries.pop(entry.offset, None)


def alike(one: str, other: str) -> bool:
    """Return whether two errors are equal except for numbers, such as those of partitions."""
    return re.sub("[0-9]+", "", one) == re.sub("[0-9]+", "", other)
