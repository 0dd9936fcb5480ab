"""Which partitions are worth asking how far one may read: those that are new, have more, had rows a batch ago, or were woken."""

from collections.abc import Iterable
from dataclasses import dataclass

from baton.model.ids import Epoch, Partition
from baton.queues.logged_ranges import Ahead, AheadAnswer, Stale
from baton.spark.batch_end import Candidate

_REFUSED_AGAIN = 0.2
"""Seconds until a queue is asked again that refused the owner that the ledger names: one of the two is ahead of the other."""
_LATER_AGAIN = 1.0
"""Seconds until a paused partition is asked again: the ledger usually says first what has become of it. Likewise where the queue
is away: to ask may take seconds, and other queues wait."""


@dataclass(slots=True)
class _Asked:
    epoch: Epoch
    position: int
    """Up to there its entries are known; at the end of what there was unless it is `more`."""
    more: bool
    """There is more, or may be by now: a batch has run since. To ask is cheaper than to be woken."""
    again: float
    """When (monotonic) it is asked again whatever happens; 0: when it is woken."""


class Due:
    """What the queues have said so far. For one thread."""

    def __init__(self) -> None:
        self._asked: dict[Partition, _Asked] = {}

    def split(self, candidates: Iterable[Candidate], now: float) -> tuple[list[Candidate], list[Candidate]]:
        """Those to ask now, and those to wait for."""
        due: list[Candidate] = []
        idle: list[Candidate] = []
        for candidate in candidates:
            known = self._asked.get(candidate.partition)
            waits = (
                known is not None
                and known.epoch == candidate.grant.epoch
                and known.position == candidate.position
                and not known.more
                and (known.again == 0 or now < known.again)
            )
            (idle if waits else due).append(candidate)
        return due, idle

    def answered(self, candidate: Candidate, end: int, answer: AheadAnswer | None, now: float) -> None:
        """The queue's word on a partition, of which this batch reads up to `end`; None: the queue was away."""
        asked = _Asked(candidate.grant.epoch, end, more=False, again=0.0)
        if isinstance(answer, Ahead):
            asked.more = candidate.position < end or end < answer.last
        else:
            asked.again = now + (_REFUSED_AGAIN if isinstance(answer, Stale) else _LATER_AGAIN)
        self._asked[candidate.partition] = asked

    def woken(self, partitions: Iterable[Partition]) -> None:
        """There may be more in these."""
        for partition in partitions:
            if known := self._asked.get(partition):
                known.more = True
