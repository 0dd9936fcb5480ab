"""What passes between a consumer's loop and those who work on its entries: who wants some, some, and what became of them."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from baton.consumer.held import HeldEntry
from baton.consumer.outcome import Outcome


@dataclass(slots=True, eq=False)
class Delivery:
    """Entries for one worker, to be worked on in this order."""

    entries: Sequence[HeldEntry]
    recalled: bool = False
    """No other of them is to be begun: the ledger or the end calls, and what was not begun goes back."""


@dataclass(slots=True, eq=False)
class Want:
    """A worker that waits for entries."""

    answer: "Future[Delivery | None]" = field(default_factory=Future)
    """None: the consumer has ended."""


@dataclass(frozen=True, slots=True)
class Told:
    """What became of some entries."""

    outcomes: Sequence[tuple[HeldEntry, Outcome]]


@dataclass(frozen=True, slots=True)
class Returned:
    """A delivery comes back: what became of its entries since the last word; the others were not begun."""

    delivery: Delivery
    outcomes: Sequence[tuple[HeldEntry, Outcome]]
    seconds: float
    """That its entries took, all together,"""
    count: int
    """and how many these were."""
