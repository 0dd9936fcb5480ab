"""Where a reader is in its partitions, and what its members hold of them. Pure."""

from dataclasses import dataclass, field

AT_ONCE = 2**20
"""Entries: as good as no bound of their own."""


@dataclass(slots=True)
class Position:
    """Where this reader is in a partition, under one epoch."""

    epoch: int
    nth: int
    """Of all that this reader had."""
    received: int = 0
    """The last entry that it received singly under this epoch."""
    tail: int | None = None
    """Nothing up to this entry is to be had; None: no new entry would be handed out now (paused, or not ours)."""
    more: bool = True
    """There may be something to read right now."""
    began: bool = False
    """This process has read it singly under this epoch. From then on the queue refuses it once another process of the pod has."""
    outstanding: int = 0
    """What the member holds of it, as the server last said."""
    asked: int = 0
    """When it was last asked for, in this reader's count of requests."""
    most: int = AT_ONCE
    """Entries that are asked for at once."""
    in_line: int = 0
    """Since when it waits for the member to finish with other entries; 0: it does not."""
    kept: bool = False
    """The queue was asked to count it as in use until it is let go of."""
    counting: dict[str, int] = field(default_factory=dict)
    """How often entries have been handed out, with a time that the queue is being told of: it may have heard, and its answer be
    lost."""


class Positions:
    """By partition. A member may hold so many entries of all partitions together (maxDeliveredUnacked); those of its partitions
    that are refused for that wait in line."""

    def __init__(self) -> None:
        self._positions: dict[int, Position] = {}
        self._requests = 0
        self._made = 0

    @property
    def full(self) -> bool:
        """Some wait in line. Any thread may ask."""
        return any(position.in_line for position in list(self._positions.values()))

    def found(self, partition: int) -> Position | None:
        """None: it was not read yet."""
        return self._positions.get(partition)

    def of(self, partition: int, epoch: int) -> Position:
        """Under this epoch. A late word of an earlier epoch does not make a reader lose its place."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            newer = self._new(epoch)
            if position is not None and epoch < position.epoch:
                return newer
            position = self._positions[partition] = newer
        return position

    def recorded(self, partition: int, epoch: int, *, ours: bool) -> None:
        """The queue has this epoch on record. `ours`: it is the reader's, and its ledger has not told it yet, so there may be
        something to read."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            self._positions[partition] = self._new(epoch, more=ours)

    def let_go(self, partition: int, epoch: int) -> None:
        """What was read under this epoch does not count any more."""
        position = self._positions.get(partition)
        if position is not None and position.epoch == epoch:
            del self._positions[partition]
            self.finished(position, 0)

    def elsewhere(self, position: Position) -> int:
        """How many entries the member may not have of this partition: what it holds of others, and one for each that waits
        longer. One that was not asked for since this one last was does not wait any more.
        """
        since = position.in_line or self._requests + 1
        ahead = held = 0
        for other in self._positions.values():
            if (other.outstanding or other.in_line) and other is not position:
                held += other.outstanding
                ahead += 0 < other.in_line < since and other.asked > position.asked
        self._requests += 1
        position.asked = self._requests
        return held + ahead

    def finished(self, position: Position, outstanding: int) -> None:
        """So much is left of it. There may be room for those that wait in line."""
        position.outstanding = outstanding
        for other in self._positions.values():
            if other.in_line:
                other.more = True

    def _new(self, epoch: int, *, more: bool = True) -> Position:
        self._made += 1
        return Position(epoch, self._made, more=more)


def holds(position: Position, outstanding: int, *, full: bool = False) -> None:
    """The member holds so much of it; `full`: it may not have more, and waits in line."""
    position.outstanding = outstanding
    position.in_line = (position.in_line or position.asked) if full else 0
