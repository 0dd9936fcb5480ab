"""Commits made a moment after entries were finished, for more entries and several partitions at a time.

A fenced commit is three requests, however many entries it covers. A consumer that reads a few entries at a time would otherwise
keep the broker, and itself, busy with commits alone.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from contextlib import suppress

from baton.model.retrying import doubling
from baton.model.wording import quoted
from baton.queues.kafka.event_loop import LoopUser
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

EVERY, SELDOM = 1.0, 5.0
"""Seconds from one commit to the next, normally and if commits take long. If the process is killed, everything finished since the
last successful commit began comes again."""
_LONG = 25
"""Commits take at most 1/_LONG of the time. The pause grows to SELDOM at most, so commits of more than a fifth of a second take a
larger share. Each partition's commit is three requests and five appends to the broker's log: a thousand pods with ten partitions
each send thirty thousand requests every second."""
AT_ONCE_EVERY = 0.05
"""Seconds between commits while a caller waits for outputs that are sent with them, or for a record."""
PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds before a failed commit is tried again if a caller waits for it, else EVERY; the pause doubles with each try. Other
commits do not wait for it."""
_FAILED = "a commit failed; retrying"


class BackgroundCommits:
    """Runs a task in an event loop, from the first `due` to `close`. Any thread may call."""

    def __init__(
        self,
        loop: LoopUser,
        commit: Callable[[Set[int]], Awaitable[Mapping[int, QueueUnreachable]]],
        look: Callable[[], Awaitable[None]],
        is_about_to_release: Callable[[int], bool] = lambda partition: False,
    ) -> None:
        """`commit` commits what is finished of these partitions, if anything, and returns those that failed, and why. `look`
        checks the owner records of all partitions, as a commit does on the way. Both raise QueueUnreachable. A partition that
        its owner `is_about_to_release` is committed with the release, or the next time."""
        self._loop = loop
        self._commit = commit
        self._look = look
        self._is_about_to_release = is_about_to_release
        self._lock = threading.Lock()
        self._due: set[int] = set()
        self._hurried = False
        self._to_mark = False
        self._news = asyncio.Event()
        self._begun = False
        self._closed = False
        self._refused: dict[int, QueueUnreachable] = {}
        """The error of each partition's last commit, if that has failed."""
        self._failing: set[str] = set()
        """Names of the steps that failed unexpectedly the last time."""

    def due(self, partition: int, *, at_once: bool = False) -> None:
        """Note that the partition has something to commit. Raises QueueUnreachable while its last commit has failed; that one is
        tried again."""
        if (refused := self._refused.get(partition)) is not None:
            raise type(refused)(str(refused))
        self._add(partition, at_once=at_once)

    def due_again(self, partitions: Iterable[int], *, at_once: bool = False, to_mark: bool = False) -> None:
        """Commit these also if nothing was finished, and if an earlier commit was refused. `to_mark`: they were handed over and
        need the mark of this process: within EVERY, however long commits take."""
        for partition in partitions:
            self._add(partition, at_once=at_once, to_mark=to_mark)

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget the failures of released partitions: they do not concern a later owner."""
        for number in partitions:
            self._refused.pop(number, None)

    def close(self) -> None:
        """Stop without a further commit."""
        self._closed = True
        self._loop.call(self._news.set)

    def _add(self, partition: int, *, at_once: bool = False, to_mark: bool = False) -> None:
        with self._lock:
            news = not self._due or (at_once and not self._hurried) or (to_mark and not self._to_mark)
            self._due.add(partition)
            self._hurried |= at_once
            self._to_mark |= to_mark
            begins, self._begun = not self._begun, True
        if begins:
            self._loop.begin(self._run())
        elif news:  # waking a thread takes longer than handling a few entries
            self._loop.call(self._news.set)

    async def _run(self) -> None:
        while not self._closed:
            await self._wait(float("inf"), lambda: bool(self._due))
            with self._lock:
                due, hurried = self._due, self._hurried
                self._due, self._hurried, self._to_mark = set(), False, False
            if due and not self._closed:
                try:
                    await self._turn(due, hurried)
                except Exception as problem:
                    self._unexpected("background commits failed; continuing", problem)
                    with self._lock:
                        self._due |= due
                    await asyncio.sleep(EVERY)

    async def _turn(self, due: Set[int], hurried: bool) -> None:
        begun = time.monotonic()
        refused = due & self._refused.keys()  # one try may take long
        later = refused | (set() if hurried else set(filter(self._is_about_to_release, due)))
        if untaken := await self._untaken(due - later):
            self._refused |= untaken
            self._loop.begin(self._try_again(untaken, PAUSE if hurried else EVERY))
        if later and later >= due:
            await self._ask()  # a commit would have checked the records
        every = EVERY if untaken or later else max(EVERY, min(SELDOM, _LONG * (time.monotonic() - begun)))
        await self._rest(begun, begun + every)
        with self._lock:
            self._due |= later
        await self._wait(begun + AT_ONCE_EVERY, lambda: False)

    async def _try_again(self, refused: Mapping[int, QueueUnreachable], pause: float) -> None:
        """Try until each of these was committed or released."""
        for seconds in doubling(pause, LONGEST_PAUSE):
            await asyncio.sleep(seconds)
            refused = self._still(refused)
            if not refused or self._closed:
                return
            untaken = await self._untaken(refused.keys())
            for number in self._still(refused):
                if number in untaken:
                    self._refused[number] = untaken[number]
                else:
                    del self._refused[number]
            refused = untaken

    def _still(self, refused: Mapping[int, QueueUnreachable]) -> dict[int, QueueUnreachable]:
        """Return those that were neither released nor refused again since."""
        return {number: one for number, one in refused.items() if self._refused.get(number) is one}

    async def _untaken(self, due: Set[int]) -> Mapping[int, QueueUnreachable]:
        """Commit these. Return those to try again, and why."""
        try:
            untaken = await self._commit(due)
        except QueueUnreachable as problem:
            return dict.fromkeys(due, problem)
        except Exception as problem:
            self._unexpected(_FAILED, problem)
            why = f"{_FAILED}: {quoted(repr(problem), 200)}"
            return dict.fromkeys(due, QueueUnreachable(why))
        self._failing.discard(_FAILED)
        return untaken

    async def _rest(self, begun: float, until: float) -> None:
        """Wait for the next commit. Meanwhile check the owner records every EVERY, which a commit would have done; otherwise the
        reader would have to wait for that."""
        await self._wait(begun + EVERY, lambda: self._hurried)
        while time.monotonic() < until and not self._is_called():
            asked_at = time.monotonic()
            await self._ask()
            await self._wait(min(asked_at + EVERY, until), self._is_called)

    def _is_called(self) -> bool:
        """Whether something must not wait longer than EVERY."""
        return self._hurried or self._to_mark or self._closed

    async def _ask(self) -> None:
        what = "checking the owner records failed; retrying"
        try:
            await self._look()
        except QueueUnreachable:
            pass  # the reader checks itself, and gets the error
        except Exception as problem:
            self._unexpected(what, problem)
        else:
            self._failing.discard(what)

    def _unexpected(self, what: str, problem: Exception) -> None:
        """Log it once."""
        if what not in self._failing:
            log.error(what, exc_info=problem)
        self._failing.add(what)

    async def _wait(self, until: float, called: Callable[[], bool]) -> None:
        while not (self._closed or called()):
            left = until - time.monotonic()
            if left <= 0:
                return
            self._news.clear()
            if called() or self._closed:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == float("inf") else left):
                    await self._news.wait()
