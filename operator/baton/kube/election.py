"""Who leads, decided from the Lease and one's own clock. Pure; `elector` carries it out.

As in client-go's leader election: other machines' clocks are not trusted, so a Lease has expired when this candidate has seen
no change of it for its whole duration. The same identity takes its own Lease at once: a container that was restarted in its
pod is the successor of the one that was killed.
"""

from dataclasses import dataclass
from enum import Enum

from baton.model.sighting import Sighting

LONGEST_DURATION = 300
"""Seconds. Nothing is moved for so long after a leader has died."""

SHORTEST_RETRY = 0.1
"""Seconds. Every replica asks the API server so often."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds. A leader that could not renew for `renew_deadline` stops before others may start."""

    duration: float = 8.0
    renew_deadline: float = 5.0
    retry: float = 1.0

    def __post_init__(self) -> None:
        if not (1 <= self.duration <= LONGEST_DURATION and self.duration == int(self.duration)):
            raise ValueError(
                f"leader election: the lease duration must be whole seconds from 1 to {LONGEST_DURATION}, for the Lease tells it "
                f"to others as such: it is {self.duration:g}"
            )
        if not self.retry >= SHORTEST_RETRY:
            raise ValueError(f"leader election: the retry period must be {SHORTEST_RETRY:g} s or more: it is {self.retry:g}")
        if not self.duration > self.renew_deadline > self.retry:
            raise ValueError(
                "leader election: the lease duration must be above the renew deadline, and that above the retry period: they are "
                f"{self.duration:g}, {self.renew_deadline:g} and {self.retry:g} s"
            )


@dataclass(frozen=True, slots=True)
class Record:
    """What stands in the Lease."""

    holder: str | None
    version: str
    """resourceVersion: changes with every renewal."""
    transitions: int = 0
    """How often the Lease changed hands: the term of its holder."""
    duration: float = 8.0
    namespaces: frozenset[str] | None = None
    """Those that its holder serves; None: all, as far as the Lease tells."""


class ElectionStep(Enum):
    """What a candidate does about the Lease."""

    CREATE = "create"
    RENEW = "renew"
    TAKE = "take"
    WAIT = "wait"


def decide(sighting: Sighting[Record | None], me: str, now: float) -> ElectionStep:
    """What a candidate does about what it sees."""
    record = sighting.record
    if record is None:
        return ElectionStep.CREATE
    if record.holder == me:
        return ElectionStep.RENEW
    if not record.holder or now >= sighting.since + record.duration:
        return ElectionStep.TAKE
    return ElectionStep.WAIT


def still_leads(renewed_at: float | None, now: float, terms: Terms) -> bool:
    """A leader trusts its Lease only for the renew deadline."""
    return renewed_at is not None and now < renewed_at + terms.renew_deadline
