"""Queues are asked at the same time, and one that answers late holds up no other: it is left behind until it has answered."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

from baton.model.ids import QueueName
from baton.spark.queue_outages import QueueAwayError

PATIENCE = 0.5
"""Seconds for a queue to answer where others have; one that has needed more for such a question has twice that."""

T = TypeVar("T")
UnderWay = Mapping[QueueName, tuple[float, Future[Any]]]
"""By queue, since when (monotonic)."""


class AskedAtOnce:
    """For one thread; any may look at `late`."""

    def __init__(self, queues: int, patience: float = PATIENCE) -> None:
        """`queues`: how many there are. `patience`: see `PATIENCE`."""
        self._alone = queues <= 1
        self._threads = ThreadPoolExecutor(max_workers=max(1, queues), thread_name_prefix="baton-ask")
        self._behind: UnderWay = {}
        self._least = patience
        self._patience: dict[tuple[str, QueueName], float] = {}
        """By the kind of question: one that takes long is no reason to wait long for the answer to another."""

    def ask(self, kind: str, asked: Mapping[QueueName, Callable[[], T]]) -> dict[QueueName, T]:
        """The answers of those that answer: not of who is away, or takes longer than it did for the last question of this kind.
        Such a one is not asked again before it has answered or failed; what it answers then is dropped."""
        found: dict[QueueName, T] = {}
        if self._alone:
            for name, what in asked.items():
                with suppress(QueueAwayError):
                    found[name] = what()
            return found
        behind = left(self._behind)
        now = time.monotonic()
        answers = {
            name: self._threads.submit(self._timed, kind, name, what) for name, what in asked.items() if name not in behind
        }
        _, late = wait(answers.values(), timeout=self.patience(kind, answers))
        self._behind = {**behind, **{name: (now, answer) for name, answer in answers.items() if answer in late}}
        for name, answer in answers.items():
            if answer not in late:
                with suppress(QueueAwayError):
                    found[name] = answer.result()
        return found

    def late(self) -> UnderWay:
        """Those that have been left behind, and have not answered yet."""
        return left(self._behind)

    def patience(self, kind: str, queues: Iterable[QueueName]) -> float:
        """Seconds for all of these to answer a question of this kind."""
        return max((self._patience.get((kind, name), self._least) for name in queues), default=self._least)

    def close(self) -> None:
        """Ask no more."""
        self._threads.shutdown(wait=False)

    def _timed(self, kind: str, name: QueueName, what: Callable[[], T]) -> T:
        began = time.monotonic()
        answer = what()
        self._patience[kind, name] = max(self._least, 2 * (time.monotonic() - began))
        return answer


def left(those: UnderWay) -> UnderWay:
    """Those that have not ended."""
    return {name: (since, one) for name, (since, one) in those.items() if not one.done()}
