"""What a queue last said, and what is wrong with it where it says nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from baton.controller.problems import Problem, Reason
from baton.engine.observation import OwnerRecord
from baton.kube.errors import ApiError, UnavailableError
from baton.model.ids import QueueName
from baton.model.wording import quoted
from baton.queues.protocol import QueueConflict, QueueUnreachable, Resizing

EXPECTED = (QueueUnreachable, QueueConflict, ApiError, UnavailableError)
"""What can go wrong at a queue. Anything else is a mistake of Baton's, or of a library."""
MOST_WORDS = 300
"""Characters of an exception that nobody thought of."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One queue as one group sees it."""

    partitions: int | None = None
    """In operation; None: not known in this run of the operator."""
    fenced: bool = True
    incarnation: str | None = None
    owners: Mapping[int, OwnerRecord] = field(default_factory=dict)
    """As of the last look that found others than those that were known."""
    problem: Problem | None = None
    resizing: Resizing | None = None
    """The number of partitions changes."""
    stale_refused: Mapping[int, int] | None = None
    dead_letters: Mapping[int, int] | None = None
    vanished: int | None = None
    """As of the last look. None: its kind does not count them, or there was no look yet."""
    letters: int | None = None
    """Dead letters that there are now. None: likewise."""
    warnings: tuple[str, ...] | None = None
    """What the server's configuration puts at risk; None: it was not asked yet."""
    zones: Mapping[int, str] = field(default_factory=dict)
    """Where the server of each partition is, where the queue knows it."""

    @property
    def telling(self) -> tuple[object, ...]:
        """What makes a difference to the group."""
        server = (self.partitions, self.fenced, self.incarnation, self.problem, self.resizing, self.warnings, self.zones)
        return (*server, self.letters)


def problem_of(queue: QueueName, error: Exception) -> Problem:
    """What an error means for the group, in a sentence for people."""
    match error:
        case QueueConflict():
            return Problem(Reason.CONFLICT, str(error))
        case QueueUnreachable():
            return Problem(Reason.QUEUE_UNREACHABLE, str(error))
        case ApiError() | UnavailableError():
            return Problem(Reason.QUEUE_UNREACHABLE, f"queue {queue}: its Secret cannot be read: {error}")
    return Problem(
        Reason.QUEUE_UNREACHABLE, f"queue {queue}: unexpected failure ({type(error).__name__}: {quoted(str(error), MOST_WORDS)})"
    )
