"""Commits that the brokers have not taken: they are tried again, and no other waits for them."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from baton.queues.protocol import QueueUnreachable

LONGEST_PAUSE = 5.0
"""Seconds between two tries: the pause doubles up to that."""
_CLOSE_WITHIN = 1.0


@dataclass(slots=True)
class _Refused:
    problem: QueueUnreachable
    pause: float
    again_at: float


class RefusedCommits:
    """In a thread of its own, from the first `add` to `close`."""

    def __init__(self, commit: Callable[[Set[int]], Mapping[int, QueueUnreachable]]) -> None:
        """`commit` answers which of these were not taken, and why."""
        self._commit = commit
        self._news = threading.Condition()
        self._refused: dict[int, _Refused] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="baton-kafka-refused", daemon=True)

    def add(self, problems: Mapping[int, QueueUnreachable], pause: float) -> None:
        """These were not taken. They are tried again after so many seconds, and then more and more seldom. Raises RuntimeError,
        and knows nothing of them, where no thread can be started."""
        with self._news:
            if self._thread.ident is None:
                self._thread.start()
            again_at = time.monotonic() + pause
            self._refused |= {number: _Refused(problem, pause, again_at) for number, problem in problems.items()}
            self._news.notify_all()

    def problem(self, partition: int) -> QueueUnreachable | None:
        """Why its last commit was not taken; None: it was."""
        refused = self._refused.get(partition)
        return None if refused is None else type(refused.problem)(str(refused.problem))

    def forget(self, partitions: Iterable[int]) -> None:
        """They are not tried any more."""
        with self._news:
            for number in partitions:
                self._refused.pop(number, None)

    def close(self) -> None:
        """What is not taken by then is not."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_WITHIN)

    def _run(self) -> None:
        while due := self._next():
            problems = self._commit(due.keys())
            with self._news:
                for number, before in due.items():
                    if self._refused.get(number) is not before:
                        continue  # it was let go of meanwhile
                    del self._refused[number]
                    if (problem := problems.get(number)) is not None:
                        pause = min(2 * before.pause, LONGEST_PAUSE)
                        self._refused[number] = _Refused(problem, pause, time.monotonic() + pause)

    def _next(self) -> Mapping[int, _Refused]:
        """Wait for some that are to be tried. Empty: it is closed."""
        with self._news:
            while not self._closed:
                now = time.monotonic()
                if due := {number: one for number, one in self._refused.items() if one.again_at <= now}:
                    return due
                first = min((one.again_at for one in self._refused.values()), default=None)
                self._news.wait(None if first is None else first - now)
            return {}
