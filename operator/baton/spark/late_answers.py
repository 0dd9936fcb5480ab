"""Queues are asked at the same time, and one that answers late holds up no other: it is left behind until it has answered."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

from baton.model.ids import QueueName
from baton.spark.queue_outages import QueueAwayError

PATIENCE = 0.5
"""Seconds for a queue to answer where others have; one that was seen to need more has twice what it needed."""

T = TypeVar("T")
UnderWay = Mapping[QueueName, tuple[float, Future[Any]]]
"""By queue, since when (monotonic)."""


class AskedAtOnce:
    """For one thread; any may look at `late`."""

    def __init__(self, queues: int) -> None:
        """`queues`: how many there are."""
        self._alone = queues <= 1
        self._threads = ThreadPoolExecutor(max_workers=max(1, queues), thread_name_prefix="baton-ask")
        self._behind: UnderWay = {}
        self._patience: dict[QueueName, float] = {}

    def ask(self, asked: Mapping[QueueName, Callable[[], T]]) -> dict[QueueName, T]:
        """The answers of those that answer: not of who is away, or takes longer than it ever did. Such a one is not asked again
        before it has answered or failed; what it answers then is nobody's."""
        found: dict[QueueName, T] = {}
        if self._alone:
            for name, what in asked.items():
                with suppress(QueueAwayError):
                    found[name] = what()
            return found
        behind = left(self._behind)
        now = time.monotonic()
        answers = {name: self._threads.submit(self._timed, name, what) for name, what in asked.items() if name not in behind}
        _, late = wait(answers.values(), timeout=self.patience(answers))
        self._behind = {**behind, **{name: (now, answer) for name, answer in answers.items() if answer in late}}
        for name, answer in answers.items():
            if answer not in late:
                with suppress(QueueAwayError):
                    found[name] = answer.result()
        return found

    def late(self) -> UnderWay:
        """Those that have been left behind, and have not answered yet."""
        return left(self._behind)

    def patience(self, queues: Iterable[QueueName]) -> float:
        """Seconds for all of these to answer."""
        return max((self._patience.get(name, PATIENCE) for name in queues), default=PATIENCE)

    def close(self) -> None:
        """Ask no more."""
        self._threads.shutdown(wait=False)

    def _timed(self, name: QueueName, what: Callable[[], T]) -> T:
        began = time.monotonic()
        answer = what()
        self._patience[name] = max(PATIENCE, 2 * (time.monotonic() - began))
        return answer


def left(those: UnderWay) -> UnderWay:
    """Those that have not ended."""
    return {name: (since, one) for name, (since, one) in those.items() if not one.done()}
