"""How long a leader leads. `baton.model.lease` says who may take the Lease; `elector` carries both out."""

from dataclasses import dataclass

LONGEST_DURATION = 300
"""Seconds. Nothing is moved for so long after a leader has died."""

SHORTEST_RETRY = 0.1
"""Seconds. Every replica asks the API server so often."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds. A leader that could not renew for `renew_deadline` stops before others may start."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

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


def still_leads(renewed_at: float | None, now: float, terms: Terms) -> bool:
    """A leader trusts its Lease only for the renew deadline."""
    return renewed_at is not None and now < renewed_at + terms.renew_deadline
