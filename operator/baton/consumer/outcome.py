"""What became of an entry that was handed out, and how a handler says so."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from baton.model.options import number, whole
from baton.model.wording import counted

_LONGEST_REASON = 500
_LONGEST_DELAY = 10**9
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Ack:
    """The entry is done."""


@dataclass(frozen=True, slots=True)
class Nack:
    """It failed, and is to be tried again."""

    why: str
    delay: float | None = None
    """Seconds until then; None: 0.1 to 5, longer from try to try."""
    alone: bool = False
    """It was in a batch that failed, and is now a batch by itself: it is unknown which entry is to blame."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """It failed, and no other try would help: it goes to the dead letters."""

    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """The handler is done with it for now, and the program acknowledges it later."""


Outcome = Ack | Nack | DeadLetter | Kept

ACK, KEPT = Ack(), Kept()


class Retry(Exception):  # noqa: N818 -- a word to the consumer
    """Raised by a handler: retry this entry, in `delay` seconds. Its partition (or key) waits for it, the others go on.

    ```python
    def handle(entry):
        if not rates.loaded:
            raise Retry("no rates yet", delay=60)
    ```
    """

    delay: float | None = None
    """Also of a subclass whose `__init__` does not call this one's."""

    def __init__(self, why: str = "the handler asked for another try", *, delay: float | None = None) -> None:
        """`delay`: seconds, up to 10^9; None: by `retry=`, else 0.1 to 5, longer each time. Raises TypeError and
        ValueError for another delay."""
        super().__init__(why)
        self.delay = seconds(delay)


class Reject(Exception):  # noqa: N818 -- likewise
    """Raised by a handler: another try would not help, so the entry becomes a dead letter now.

    ```python
    def handle(entry):
        if entry.value is None:
            raise Reject("an order without a value")
    ```
    """

    def __init__(self, why: str = "the handler rejected it") -> None:
        super().__init__(why)


class HandlerTimeout(TimeoutError):  # noqa: N818 -- says what happened, as the argument does
    """A coroutine was cancelled because it took longer than `handler_timeout`: its entry fails with this.

    ```python
    consumer.run(handle, handler_timeout=30, retry={HandlerTimeout: Backoff(attempts=3)})
    ```
    """


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a failed entry waits for its next attempt, and how many attempts it has.

    ```python
    consumer.run(handle, retry=Backoff(first=1, factor=2, most=300, jitter=0.2, attempts=8))
    ```

    Args:
        first: Seconds before the second attempt.
        factor: How many times as long each further wait is, 1 to 100.
        most: Most seconds of a wait.
        jitter: The share, 0 to 1, by which a wait may be shorter, at random.
        attempts: After so many the entry becomes a dead letter; None: no limit.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of its range.
    """

    first: float = 1.0
    factor: float = 2.0
    most: float = 300.0
    jitter: float = 0.2
    attempts: int | None = 8

    def __post_init__(self) -> None:
        number("first", self.first, 0, _LONGEST_DELAY)
        number("factor", self.factor, 1, 100)
        number("most", self.most, 0, _LONGEST_DELAY)
        number("jitter", self.jitter, 0, 1)
        if self.attempts is not None:
            whole("attempts", self.attempts, 1)

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait after the attempt with this number; the first is 0."""
        longest = min(self.most, self.first * self.factor ** min(attempt, 150))
        return longest * (1 - self.jitter * random.random())


Policies = Mapping[type[Exception], Backoff]
"""How entries are retried, by what the handler raised: the nearest of its base classes counts."""


def policies(retry: Backoff | Policies | None) -> Policies:
    """One Backoff is for all exceptions. Raises TypeError for what is no policy."""
    found = {Exception: retry} if isinstance(retry, Backoff) else {} if retry is None else retry
    if not isinstance(found, Mapping) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) and isinstance(one, Backoff) for kind, one in found.items()
    ):
        raise TypeError(f"retry is {retry!r}: set it to a Backoff, or to a dict of exceptions and their Backoffs")
    return found


def retried(word: Nack, by: Policies, kind: type[Exception], attempt: int) -> Nack | DeadLetter:
    """What comes of an attempt that failed: what the policy for this kind of exception says, if there is one. A delay that the
    program has named stands."""
    policy = next((by[one] for one in kind.__mro__ if one in by), None)
    if policy is None:
        return word
    if policy.attempts is not None and attempt + 1 >= policy.attempts:
        return DeadLetter(bounded(f"after {counted(attempt + 1, 'attempt')}: {word.why}"))
    return replace(word, delay=policy.wait(attempt)) if word.delay is None else word


def outcome_of(error: Exception, hopeless: tuple[type[Exception], ...] = ()) -> Nack | DeadLetter:
    """What an exception of a handler says of its entry. `hopeless`: exceptions that are not worth a retry. A delay that is no
    number of seconds, which a subclass of Retry may have, is a failure like any other."""
    if isinstance(error, Retry):
        try:
            return Nack(bounded(_text(error)), seconds(error.delay))
        except (TypeError, ValueError) as wrong:
            return Nack(bounded(said(wrong)))
    if isinstance(error, Reject):
        return DeadLetter(bounded(_text(error)))
    why = bounded(said(error))
    return DeadLetter(why) if isinstance(error, hopeless) else Nack(why)


def then(outcome: Nack | DeadLetter) -> str:
    """What comes of it, for a log."""
    if isinstance(outcome, DeadLetter):
        return "moving it to the dead letters"
    return "retrying" + (f" in {outcome.delay:.3g} s" if outcome.delay else "")


def bounded(why: str) -> str:
    """As a queue takes it. Raises TypeError for what is no text."""
    if not isinstance(why, str):
        raise TypeError(f"why is {why!r}: set it to a text, such as str(error)")
    return why[:_LONGEST_REASON].encode(errors="replace").decode()


def seconds(delay: float | None) -> float | None:
    """Raises TypeError and ValueError for what is no number of seconds."""
    if delay is not None:
        number("delay", delay, 0, _LONGEST_DELAY)
    return delay


def said(error: BaseException) -> str:
    """Its kind and its text."""
    return f"{type(error).__name__}: {_text(error)}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot be said)"
