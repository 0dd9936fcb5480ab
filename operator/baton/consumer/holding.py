"""One partition in a consumer's hands, from the grant until it is let go of or lost."""

import time
from dataclasses import dataclass, field
from enum import Enum, auto

from baton.consumer.lane import Lane
from baton.consumer.reader import Reader
from baton.model.ids import Epoch, Partition


class Phase(Enum):
    """Where a holding is in its life."""

    SERVING = auto()
    LETTING_GO = auto()
    """Nothing new is read; what is in hand is finished."""
    RELEASED = auto()
    """Given back by this consumer's own word."""
    FENCED = auto()
    """Lost: the queue refuses this consumer, or its ledger does not name the partition any more."""


@dataclass(slots=True, eq=False)
class Holding:
    """What is in hand of a partition under one epoch."""

    partition: Partition
    epoch: Epoch
    phase: Phase = Phase.SERVING
    lane: Lane = field(init=False)
    """Its entries in hand."""
    handled: list[str] = field(default_factory=list)
    """Offsets to acknowledge."""
    read_before: bool = False
    """This process has read it; if not, what an earlier run of this container had in hand is still to be asked for."""
    sure_at: float = 0.0
    """When the queue last said that the partition is ours."""
    since: float = field(default_factory=time.monotonic)
    """When it was granted, as far as this process knows."""
    served_at: float = 0.0
    """When it had its turn last; 0: never."""

    def __post_init__(self) -> None:
        self.lane = Lane(self)

    @property
    def over(self) -> bool:
        return self.phase in (Phase.RELEASED, Phase.FENCED)

    def let_go(self) -> None:
        """Read nothing new any more; what is in hand is tried at once."""
        if self.phase is Phase.SERVING:
            self.phase = Phase.LETTING_GO
            self.lane.not_before = 0.0

    def end(self, phase: Phase, reader: Reader) -> None:
        """Nothing of it is worked on any more. What was not acknowledged is the next owner's, and counts here no longer."""
        reader.let_go(self.partition.number, self.epoch)
        self.phase = phase
        self.lane.clear()
        self.handled.clear()
