"""What passes between a consumer's loop and those who work on its entries: who wants some, some, and what became of them."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf

from baton.consumer.acknowledgement import Acknowledgement
from baton.consumer.callbacks import Call
from baton.consumer.entry_sequence import EntrySequence
from baton.consumer.held_entry import HeldEntry
from baton.consumer.outcome import Outcome
from baton.model.options import number, whole

Outcomes = Sequence[tuple[Sequence[HeldEntry], Outcome]]
"""Entries, and what became of each of them."""
Part = tuple[EntrySequence, Sequence[HeldEntry]]
"""Entries of one sequence, in order."""


@dataclass(slots=True, eq=False)
class Delivery:
    """Entries for one worker, to be worked on in this order."""

    parts: Sequence[Part]
    recalled: bool = False
    """No other of them is to be begun: the ledger or the end calls, and what was not begun goes back."""
    held_up: bool = False
    """Likewise, behind one that is to come again."""
    at: Sequence[HeldEntry] = ()
    """What its handler has been called with and has not returned from,"""
    at_since: float = 0.0
    """since when (monotonic),"""
    warnings: int = 0
    """and how often that was warned of."""

    @property
    def entries(self) -> Sequence[HeldEntry]:
        return [entry for _, entries in self.parts for entry in entries]


@dataclass(frozen=True, slots=True)
class BatchSize:
    """How much a batch has."""

    entries: int = 500
    """At most,"""
    bytes: float = inf
    """and so many bytes of keys, values and headers (but one entry at least)."""
    wait: float = 0.2
    """Seconds for which a batch that has something waits for more."""

    def __post_init__(self) -> None:
        """Raises ValueError for a batch that could have nothing, and TypeError for what is no number."""
        whole("max_entries", self.entries, 1)
        number("max_bytes", self.bytes, 1)
        number("max_wait", self.wait, 0)


@dataclass(slots=True, eq=False)
class Want:
    """A worker that waits for entries, or for a callback that it is to call."""

    batch: BatchSize | None = None
    """None: a little of what there is."""
    answer: "Future[Delivery | Call | None]" = field(default_factory=Future)
    """None: the consumer has ended."""
    since: float | None = None
    """When there was something for it, first (monotonic)."""


@dataclass(frozen=True, slots=True)
class Told:
    """What became of some entries, and who wants to hear that the queue knows it."""

    outcomes: Outcomes
    receipt: Acknowledgement | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """A delivery comes back: what became of its entries since the last word; the others were not begun."""

    delivery: Delivery
    outcomes: Outcomes
    seconds: float
    """That its entries took, all together,"""
    count: int
    """and how many these were."""
