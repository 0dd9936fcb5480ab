"""A lock for each partition: two commits of one partition at a time would be one transaction. Others do not wait for it."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class PartitionLocks:
    """Whoever has one may take it once more."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}

    @contextmanager
    def held(self, partitions: Iterable[int], until: float | None = None) -> Iterator[None]:
        """All of these. Raises TimeoutError where somebody has one of them `until` then (monotonic)."""
        with self._taken(sorted(partitions), until) as (_, missing):
            if missing:
                raise TimeoutError
            yield

    @contextmanager
    def free(self, partitions: Iterable[int]) -> Iterator[set[int]]:
        """Those of these that nobody has."""
        with self._taken(sorted(partitions), 0.0) as (taken, _):
            yield set(taken)

    @contextmanager
    def _taken(self, partitions: list[int], until: float | None) -> Iterator[tuple[list[int], list[int]]]:
        """In order, so that nobody who has one waits for one who waits for that."""
        taken: list[int] = []
        missing: list[int] = []
        try:
            for number in partitions:
                seconds = -1.0 if until is None else max(0.0, until - time.monotonic())
                (taken if self._of(number).acquire(timeout=seconds) else missing).append(number)
            yield taken, missing
        finally:
            for number in reversed(taken):
                self._of(number).release()

    def _of(self, number: int) -> threading.RLock:
        return self._locks.setdefault(number, threading.RLock())
