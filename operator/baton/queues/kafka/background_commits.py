"""Commits a moment after entries were finished: one has more of them then, and several partitions have theirs at the same time.

A commit under a fence is three requests, whatever it goes over. So a consumer that has a few entries at a time would
keep the broker, and itself, busy with commits alone.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass

from baton.model.retrying import doubling
from baton.model.wording import quoted
from baton.queues.kafka.event_loop import LoopUser
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
"""The same if a caller waits for the messages that are sent with them."""
PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds before a commit that the brokers did not take is tried again if a caller waits for it, else EVERY; the pause
doubles with each try. No other commit waits for these."""


@dataclass(eq=False, slots=True)
class _Refused:
    problem: QueueUnreachable


class BackgroundCommits:
    """A task of an event loop, from the first `due` to `close`. Any thread may call."""

    def __init__(
        self,
        loop: LoopUser,
        commit: Callable[[Set[int]], Awaitable[Mapping[int, QueueUnreachable]]],
        look: Callable[[], Awaitable[None]],
        is_about_to_let_go: Callable[[int], bool] = lambda partition: False,
    ) -> None:
        """`commit` commits what is finished of these partitions, where there is something; the answer: of which that was not
        taken, and why. `look` asks whose all partitions are, as a commit does by the way. Both raise QueueUnreachable. One that
        `is_about_to_let_go` is committed when it is let go of, or the next time."""
        self._loop = loop
        self._commit = commit
        self._look = look
        self._is_about_to_let_go = is_about_to_let_go
        self._lock = threading.Lock()
        self._due: set[int] = set()
        self._hurried = False
        self._to_mark = False
        self._news = asyncio.Event()
        self._begun = False
        self._closed = False
        self._refused: dict[int, _Refused] = {}
        self._failing: set[str] = set()
        """What failed unexpectedly the last time."""

    def due(self, partition: int, *, at_once: bool = False) -> None:
        """There is something to commit of it. Raises QueueUnreachable while its last commit was not taken: it is tried again."""
        if (refused := self._refused.get(partition)) is not None:
            raise type(refused.problem)(str(refused.problem))
        self._add(partition, at_once=at_once)

    def due_to_mark(self, partition: int) -> None:
        """It was handed over, and is to get the mark of this process: after EVERY, however long commits take."""
        self._add(partition, to_mark=True)

    def due_again(self, partitions: Iterable[int]) -> None:
        """There is nothing to commit of these, but they would expire."""
        for partition in partitions:
            self._add(partition)

    def forget(self, partitions: Iterable[int]) -> None:
        """They are let go of: what was refused of them says nothing of who may have them next."""
        for number in partitions:
            self._refused.pop(number, None)

    def close(self) -> None:
        """What is not committed by then is not."""
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
        elif news:  # to wake a thread takes longer than most of what is done for a few entries
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
                    self._unexpected("commits in the background failed, and go on", problem)
                    with self._lock:
                        self._due |= due
                    await asyncio.sleep(EVERY)

    async def _turn(self, due: Set[int], hurried: bool) -> None:
        begun = time.monotonic()
        refused = due & self._refused.keys()  # a try of these may take long
        later = refused | (set() if hurried else set(filter(self._is_about_to_let_go, due)))
        if untaken := await self._untaken(due - later):
            problems = {number: _Refused(problem) for number, problem in untaken.items()}
            self._refused |= problems
            self._loop.begin(self._try_again(problems, PAUSE if hurried else EVERY))
        if later and later >= due:
            await self._ask()  # a commit would have been a look, too
        every = EVERY if untaken or later else max(EVERY, min(SELDOM, _LONG * (time.monotonic() - begun)))
        await self._rest(begun, begun + every)
        with self._lock:
            self._due |= later
        await self._wait(begun + AT_ONCE_EVERY, lambda: False)

    async def _try_again(self, refused: Mapping[int, _Refused], pause: float) -> None:
        """Until each of these was taken, or let go of."""
        for seconds in doubling(pause, LONGEST_PAUSE):
            await asyncio.sleep(seconds)
            refused = self._still(refused)
            if not refused or self._closed:
                return
            problems = await self._untaken(refused.keys())
            for number, one in self._still(refused).items():
                if number in problems:
                    one.problem = problems[number]
                else:
                    del self._refused[number]

    def _still(self, refused: Mapping[int, _Refused]) -> dict[int, _Refused]:
        return {number: one for number, one in refused.items() if self._refused.get(number) is one}

    async def _untaken(self, due: Set[int]) -> Mapping[int, QueueUnreachable]:
        """Commit these. The answer: which are to be tried again, and why."""
        try:
            untaken = await self._commit(due)
        except QueueUnreachable as problem:
            return dict.fromkeys(due, problem)
        except Exception as problem:
            self._unexpected("committing failed, and is tried again", problem)
            why = f"committing failed, and is tried again: {quoted(repr(problem), 200)}"
            return dict.fromkeys(due, QueueUnreachable(why))
        self._failing.discard("committing failed, and is tried again")
        return untaken

    async def _rest(self, begun: float, until: float) -> None:
        """From a commit to the next one. What a commit in EVERY would find out by the way is asked for, or else the reader would
        have to wait for the answer."""
        await self._wait(begun + EVERY, lambda: self._hurried)
        while time.monotonic() < until and not self._is_called():
            asked_at = time.monotonic()
            await self._ask()
            await self._wait(min(asked_at + EVERY, until), self._is_called)

    def _is_called(self) -> bool:
        """What is due does not wait for longer than EVERY."""
        return self._hurried or self._to_mark or self._closed

    async def _ask(self) -> None:
        what = "asking whose the partitions are failed, and is tried again"
        try:
            await self._look()
        except QueueUnreachable:
            pass  # the reader hears of it
        except Exception as problem:
            self._unexpected(what, problem)
        else:
            self._failing.discard(what)

    def _unexpected(self, what: str, problem: Exception) -> None:
        """It is logged once."""
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
