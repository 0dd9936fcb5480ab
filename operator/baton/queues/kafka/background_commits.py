"""Commits a moment after entries were finished: one has more of them then, and several partitions have theirs at the same time.

A commit under a fence is three requests, whatever it goes over. So a consumer that has a few entries at a time would
keep the broker, and itself, busy with commits alone.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from baton.model.wording import quoted
from baton.queues.protocol import QueueUnreachable

# -- Commits that the brokers have not taken: they are tried again, and no other waits for them.

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
"""Seconds before a commit is tried again that the brokers did not take, where somebody waits for it; else EVERY. If they do not
take it then, either, it is tried more and more seldom (`refused_commits.py`)."""


class BackgroundCommits:
    """In a thread of its own, from the first `due` to `close`."""

    def __init__(
        self,
        commit: Callable[[Set[int]], Mapping[int, QueueUnreachable]],
        look: Callable[[], None],
        is_about_to_go: Callable[[int], bool] = lambda partition: False,
    ) -> None:
        """`commit` commits what is finished of these partitions, where there is something; the answer: of which that was not
        taken, and why. `look` asks whose all partitions are, as a commit does by the way. Both raise QueueUnreachable. One that
        `is_about_to_go` is committed when it is let go of, or the next time."""
        self._commit = commit
        self._look = look
        self._is_about_to_go = is_about_to_go
        self._news = threading.Condition()
        self._due: set[int] = set()
        self._hurried = False
        self._to_mark = False
        self._closed = threading.Event()
        self._refused = RefusedCommits(self._untaken)
        self._commit_fails = False
        self._look_fails = False
        self._turn_fails = False
        self._thread = threading.Thread(target=self._run, name="baton-kafka-background", daemon=True)

    def due(self, partition: int, *, at_once: bool = False) -> None:
        """There is something to commit of it. Raises QueueUnreachable while its last commit was not taken: it is tried again."""
        if (problem := self._refused.problem(partition)) is not None:
            raise problem
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
        self._refused.forget(partitions)

    def close(self) -> None:
        """What is not committed by then is not."""
        self._closed.set()
        with self._news:
            self._news.notify_all()
        self._refused.close()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_WITHIN)

    def _add(self, partition: int, *, at_once: bool = False, to_mark: bool = False) -> None:
        with self._news:
            news = not self._due or (at_once and not self._hurried) or (to_mark and not self._to_mark)
            self._due.add(partition)
            self._hurried |= at_once
            self._to_mark |= to_mark
            if self._thread.ident is None:
                self._thread.start()
            if news:  # to wake a thread takes longer than most of what is done for a few entries
                self._news.notify_all()

    def _run(self) -> None:
        while not self._closed.is_set():
            with self._news:
                self._news.wait_for(lambda: self._due or self._closed.is_set())
                due, hurried = self._due, self._hurried
                self._due, self._hurried, self._to_mark = set(), False, False
            self._turn(due, hurried)

    def _turn(self, due: Set[int], hurried: bool) -> None:
        try:
            begun = time.monotonic()
            refused = {one for one in due if self._refused.problem(one) is not None}  # whoever tries these may wait for long
            later = refused | (set() if hurried else set(filter(self._is_about_to_go, due)))
            if untaken := self._untaken(due - later):
                self._refused.add(untaken, _PAUSE if hurried else EVERY)
            if later and later >= due:
                self._ask()  # a commit would have been a look, too
            every = EVERY if untaken or later else max(EVERY, min(SELDOM, _LONG * (time.monotonic() - begun)))
            self._rest(begun, begun + every)
            with self._news:
                self._due |= later
            self._closed.wait(begun + AT_ONCE_EVERY - time.monotonic())
            self._turn_fails = False
        except Exception:  # as where no thread can be started
            if not self._turn_fails:
                log.exception("commits in the background failed, and go on")
            self._turn_fails = True
            with self._news:
                self._due |= due
            self._closed.wait(EVERY)

    def _untaken(self, due: Set[int]) -> Mapping[int, QueueUnreachable]:
        """Commit these. The answer: which are to be tried again, and why."""
        try:
            untaken = self._commit(due)
        except QueueUnreachable as problem:
            return dict.fromkeys(due, problem)
        except Exception as problem:
            if not self._commit_fails:
                log.exception("committing failed, and is tried again")
            self._commit_fails = True
            why = f"committing failed, and is tried again: {quoted(repr(problem), 200)}"
            return dict.fromkeys(due, QueueUnreachable(why))
        self._commit_fails = False
        return untaken

    def _rest(self, begun: float, until: float) -> None:
        """From a commit to the next one. What a commit in EVERY would find out by the way is asked for: else whoever reads would
        have to wait for the answer."""
        self._wait(begun + EVERY, lambda: self._hurried)
        while time.monotonic() < until and not self._is_called():
            asked_at = time.monotonic()
            self._ask()
            self._wait(min(asked_at + EVERY, until), self._is_called)

    def _is_called(self) -> bool:
        """What is due does not wait for longer than EVERY."""
        return self._hurried or self._to_mark or self._closed.is_set()

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
