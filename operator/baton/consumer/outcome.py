"""Outcomes of entries, and the exceptions and policies by which a handler decides them."""

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
    """The entry is finished."""


@dataclass(frozen=True, slots=True)
class Nack:
    """The attempt failed, and the entry is retried."""

    why: str
    delay: float | None = None
    """Seconds until the next attempt; None: 0.1 to 5, longer each time."""
    by_policy: bool = False
    """Whether the delay is a retry policy's, and not one that the program asked for this time."""
    alone: bool = False
    """Whether the next attempt is a batch by itself: a batch failed, and it is unknown which of its entries is to blame."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The entry failed, and moves to the dead letters without another attempt."""

    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """The handler has returned, and the program acknowledges the entry later."""


Outcome = Ack | Nack | DeadLetter | Kept

ACK, KEPT = Ack(), Kept()


class Retry(Exception):  # noqa: N818 -- a request to the consumer
    """Raised by a handler to retry the entry in `delay` seconds. Its partition (or key) waits for it; others go on.

    ```python
    def handle(entry):
        if not rates.loaded:
            raise Retry("no rates yet", delay=60)
    ```
    """

    delay: float | None = None
    """The default for subclasses whose `__init__` does not call `Retry.__init__`."""

    def __init__(self, why: str = "the handler requested a retry", *, delay: float | None = None) -> None:
        """`delay`: seconds, up to 10^9; None: by `retry=`, else 0.1 to 5, longer each time. Raises TypeError or ValueError for an
        invalid delay."""
        super().__init__(why)
        self.delay = seconds(delay)


class Reject(Exception):  # noqa: N818 -- likewise
    """Raised by a handler to make the entry a dead letter at once.

    ```python
    def handle(entry):
        if entry.value is None:
            raise Reject("an order without a value")
    ```
    """

    def __init__(self, why: str = "the handler rejected it") -> None:
        super().__init__(why)


class HandlerTimeout(TimeoutError):  # noqa: N818 -- named like the argument
    """The failure of an entry whose coroutine was cancelled because it took longer than `handler_timeout`.

    ```python
    consumer.run(handle, handler_timeout=30, retry={HandlerTimeout: Backoff(attempts=3)})
    ```
    """


@dataclass(frozen=True, slots=True)
class Backoff:
    """A retry policy: delays between attempts, and the number of attempts.

    ```python
    consumer.run(handle, retry=Backoff(first=1, factor=2, most=300, jitter=0.2, attempts=8))
    ```

    Args:
        first: Seconds before the second attempt.
        factor: Factor between one delay and the next, 1 to 100.
        most: Maximum seconds of a delay.
        jitter: Maximum share, 0 to 1, by which a delay is shortened at random.
        attempts: Number of attempts after which the entry becomes a dead letter; None: no limit.

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
        """Return the seconds to wait after the attempt with this number, counted from 0."""
        longest = min(self.most, self.first * self.factor ** min(attempt, 150))
        return longest * (1 - self.jitter * random.random())


Policies = Mapping[type[Exception], Backoff]
"""Retry policies by exception class. The nearest base class of what the handler raised applies."""


def policies(retry: Backoff | Policies | None) -> Policies:
    """Return `retry` as policies: a single Backoff applies to all exceptions. Raises TypeError for anything else."""
    found = {Exception: retry} if isinstance(retry, Backoff) else {} if retry is None else retry
    if not isinstance(found, Mapping) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) and isinstance(one, Backoff) for kind, one in found.items()
    ):
        raise TypeError(f"retry is {retry!r}: set it to a Backoff, or to a dict of exceptions and their Backoffs")
    return found


def apply_policy(failed: Nack, by: Policies, kind: type[Exception], attempt: int) -> Nack | DeadLetter:
    """Apply the policy for this kind of exception, if there is one, to a failed attempt. An explicit delay takes precedence over
    the policy's."""
    policy = next((by[one] for one in kind.__mro__ if one in by), None)
    if policy is None:
        return failed
    if policy.attempts is not None and attempt + 1 >= policy.attempts:
        return DeadLetter(bounded(f"after {counted(attempt + 1, 'attempt')}: {failed.why}"))
    return replace(failed, delay=policy.wait(attempt), by_policy=True) if failed.delay is None else failed


def outcome_of(error: Exception, dead_letter_on: tuple[type[Exception], ...] = ()) -> Nack | DeadLetter:
    """Return the outcome for an exception of a handler. An invalid delay, which a subclass of Retry may have, is a failure like
    any other."""
    if isinstance(error, Retry):
        try:
            return Nack(bounded(_text(error)), seconds(error.delay))
        except (TypeError, ValueError) as wrong:
            return Nack(bounded(described(wrong)))
    if isinstance(error, Reject):
        return DeadLetter(bounded(_text(error)))
    why = bounded(described(error))
    return DeadLetter(why) if isinstance(error, dead_letter_on) else Nack(why)


def next_step(outcome: Nack | DeadLetter) -> str:
    """Return what the consumer does next, for a log line."""
    if isinstance(outcome, DeadLetter):
        return "moving it to the dead letters"
    return "retrying" + (f" in {outcome.delay:.3g} s" if outcome.delay else "")


def bounded(why: str) -> str:
    """Return a reason in the form that queues accept. Raises TypeError unless it is a string."""
    if not isinstance(why, str):
        raise TypeError(f"why is {why!r}: set it to a string, such as str(error)")
    return why[:_LONGEST_REASON].encode(errors="replace").decode()


def seconds(delay: float | None) -> float | None:
    """Return the delay. Raises TypeError or ValueError if it is not a valid number of seconds."""
    if delay is not None:
        number("delay", delay, 0, _LONGEST_DELAY)
    return delay


def described(error: BaseException) -> str:
    """Return the class and the text of an error."""
    return f"{type(error).__name__}: {_text(error)}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text is unavailable: str() failed)"
