"""Queues that are out of reach: it is noted when they are asked, told in the log and to the group, and over when they answer."""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from baton.consumer.queue_requests import alike
from baton.model.ids import QueueName
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger("baton.spark")

AGAIN = 0.5
"""Seconds until a queue that is out of reach is asked again."""


class QueueAwayError(Exception):
    """A queue is out of reach for now. It is noted already."""


class QueueOutages:
    """Thread-safe."""

    def __init__(self) -> None:
        self._away: dict[QueueName, tuple[float, str]] = {}
        """Since when (monotonic), and why."""

    def queues(self) -> frozenset[QueueName]:
        """Those that are away."""
        return frozenset(self._away.copy())

    def longer_than(self, since: float) -> Iterable[str]:
        """Why the queues are away that were so by then (monotonic)."""
        return [why for _, (begun, why) in sorted(self._away.copy().items()) if begun <= since]

    @contextmanager
    def noted(self, queue: QueueName) -> Iterator[None]:
        """The queue is asked. Raises QueueAwayError where it is out of reach."""
        try:
            yield
        except QueueUnreachable as error:
            self.begin(queue, error)
            raise QueueAwayError(str(error)) from None
        if self._away.pop(queue, None):
            log.info("queue %s answers again", queue)

    def begin(self, queue: QueueName, error: QueueUnreachable) -> None:
        """It is out of reach."""
        since, why = self._away.get(queue, (time.monotonic(), ""))
        if not why:
            log.warning("queue %s is out of reach: %s", queue, error)
        self._away[queue] = since, why if alike(why, str(error)) else str(error)
