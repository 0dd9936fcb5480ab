"""Commits a moment after entries were finished: one has more of them then, and several partitions have theirs at the same time.

A commit under a fence is three requests, whatever it goes over. So a consumer that has a few entries at a time would
keep the broker, and itself, busy with commits alone.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set

from baton.model.wording import quoted
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

EVERY, SELDOM = 1.0, 5.0
"""Seconds from one commit to the next, and where they take long. If the process is killed, all that it finished since the last
commit began that was taken comes again."""
_LONG = 25
"""Of the time no more than one part in so many goes into commits, as long as they take less than a fifth of a second: then
SELDOM is reached. Each partition's is three requests and five appends to the broker's log: of a thousand pods with ten partitions
each they are thirty thousand requests, every second."""
AT_ONCE_EVERY = 0.05
"""Likewise, where somebody waits for what is sent with them."""
_PAUSE = 0.5
"""Seconds before a commit is tried again that the brokers did not take, where somebody waits for it; else EVERY."""
_CLOSE_WITHIN = 1.0


class BackgroundCommits:
    """In a thread of its own, from the first `due` to `close`."""

    def __init__(self, commit: Callable[[Set[int]], Mapping[int, QueueUnreachable]], look: Callable[[], None]) -> None:
        """`commit` commits what is finished of these partitions, where there is something; the answer: of which that was not
        taken, and why. `look` asks whose all partitions are, as a commit does by the way. Both raise QueueUnreachable."""
        self._commit = commit
        self._look = look
        self._news = threading.Condition()
        self._due: set[int] = set()
        self._hurried: set[int] = set()
        """Of these: somebody waits for it."""
        self._to_mark = False
        self._again_at: dict[int, float] = {}
        """When those that were not taken are tried again (monotonic),"""
        self._troubles: dict[int, QueueUnreachable] = {}
        """and why they were not."""
        self._closed = threading.Event()
        self._look_fails = False
        self._thread = threading.Thread(target=self._run, name="baton-kafka-background", daemon=True)

    def due(self, partition: int, *, at_once: bool = False) -> None:
        """There is something to commit of it. Raises QueueUnreachable while its last commit was not taken: it is tried again."""
        self._add(partition, at_once=at_once)
        if (trouble := self._troubles.get(partition)) is not None:
            raise type(trouble)(str(trouble))

    def due_to_mark(self, partition: int) -> None:
        """It was handed over, and is to get the mark of this process: after EVERY, however long commits take."""
        self._add(partition, to_mark=True)

    def due_again(self, partitions: Iterable[int]) -> None:
        """There is nothing to commit of these, but they would expire."""
        for partition in partitions:
            self._add(partition)

    def close(self) -> None:
        """What is not committed by then is not."""
        self._closed.set()
        with self._news:
            self._news.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_WITHIN)

    def _add(self, partition: int, *, at_once: bool = False, to_mark: bool = False) -> None:
        with self._news:
            news = not self._due or (at_once and not self._hurried) or (to_mark and not self._to_mark)
            news |= not self._again_at.keys().isdisjoint(self._due)
            self._due.add(partition)
            if at_once:
                self._hurried.add(partition)
            self._to_mark |= to_mark
            if self._thread.ident is None:
                self._thread.start()
            if news:  # to wake a thread takes longer than most of what is done for a few entries
                self._news.notify_all()

    def _run(self) -> None:
        while not self._closed.is_set():
            due, hurried = self._next()
            begun = time.monotonic()
            untaken = self._untaken(due)
            ended = time.monotonic()
            self._troubles = {one: why for one, why in self._troubles.items() if one not in due} | dict(untaken)
            with self._news:
                self._due |= untaken.keys()
                self._hurried |= hurried & untaken.keys()
                for one in untaken:
                    self._again_at[one] = ended + _PAUSE if one in hurried else max(ended + _PAUSE, begun + EVERY)
            if untaken:
                self._wait(min(self._again_at[one] for one in untaken), self._is_hurried)
            else:
                self._rest(begun, begun + max(EVERY, min(SELDOM, _LONG * (ended - begun))))
            self._closed.wait(begun + AT_ONCE_EVERY - time.monotonic())

    def _next(self) -> tuple[Set[int], Set[int]]:
        """Wait for some that are due. The answer: these, and for which of them somebody waits."""
        with self._news:
            while not (due := self._to_try(self._due)) and not self._closed.is_set():
                again = min((self._again_at[one] for one in self._due), default=None)
                seconds = None if again is None else again - time.monotonic()
                self._news.wait_for(lambda: self._to_try(self._due) or self._closed.is_set(), seconds)
            hurried = self._hurried & due
            self._due -= due
            self._hurried -= due
            self._to_mark = False
            for one in due:
                self._again_at.pop(one, None)
            return due, hurried

    def _to_try(self, partitions: Set[int]) -> set[int]:
        """Without those that were refused just now."""
        now = time.monotonic()
        return {one for one in partitions if self._again_at.get(one, 0.0) <= now}

    def _untaken(self, due: Set[int]) -> Mapping[int, QueueUnreachable]:
        """Commit these. The answer: which are to be tried again, and why."""
        try:
            return self._commit(due)
        except QueueUnreachable as problem:
            return dict.fromkeys(due, problem)
        except Exception as problem:
            why = f"committing failed, and is tried again: {quoted(repr(problem), 200)}"
            if all(str(known) != why for known in self._troubles.values()):
                log.exception("committing failed, and is tried again")
            return dict.fromkeys(due, QueueUnreachable(why))

    def _rest(self, begun: float, until: float) -> None:
        """From a commit to the next one. What a commit in EVERY would find out by the way is asked for: else whoever reads would
        have to wait for the answer."""
        self._wait(begun + EVERY, self._is_hurried)
        while time.monotonic() < until and not self._is_called():
            asked_at = time.monotonic()
            self._ask()
            self._wait(min(asked_at + EVERY, until), self._is_called)

    def _is_called(self) -> bool:
        """What is due does not wait for longer than EVERY."""
        return self._is_hurried() or self._to_mark or self._closed.is_set()

    def _is_hurried(self) -> bool:
        return bool(self._to_try(self._hurried))

    def _ask(self) -> None:
        try:
            self._look()
        except QueueUnreachable:
            pass  # whoever reads hears of it
        except Exception:
            if not (self._look_fails or self._closed.is_set()):
                log.exception("asking whose the partitions are failed, and is tried again")
            self._look_fails = True
        else:
            self._look_fails = False

    def _wait(self, until: float, called: Callable[[], bool]) -> None:
        with self._news:
            self._news.wait_for(lambda: called() or self._closed.is_set(), until - time.monotonic())
