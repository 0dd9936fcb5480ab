"""What became of an entry that was handed out, and how a handler says so."""

from dataclasses import dataclass

from baton.model.options import number

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
    """Raised by a handler: try this entry again, in `delay` seconds. Its partition (or its key) waits for it."""

    delay: float | None = None
    """Also of a subclass whose `__init__` does not call this one's."""

    def __init__(self, why: str = "the handler asked for another try", *, delay: float | None = None) -> None:
        """Raises TypeError and ValueError for a delay that is no number of seconds."""
        super().__init__(why)
        self.delay = seconds(delay)


class Reject(Exception):  # noqa: N818 -- likewise
    """Raised by a handler: no other try would help, so the entry goes to the dead letters now."""

    def __init__(self, why: str = "the handler rejected it") -> None:
        super().__init__(why)


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
