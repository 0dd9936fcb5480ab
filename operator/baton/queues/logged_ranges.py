"""What is asked of a queue whose ranges are logged, and what it answers. All positions are the numbers of entries; a range begins
behind `start`, and ends with the entry `end`.
"""

from typing import NamedTuple

from baton.model.ids import Epoch, Uid


class PartitionBounds(NamedTuple):
    """Where a partition begins and ends for who reads it from now on. There is nothing where `last` is `committed`."""

    committed: int
    """Everything up to it is finished with."""
    before_first: int
    """A range that begins behind this one begins with the first entry that is there."""
    last: int
    """The last entry that is there."""


class AheadRequest(NamedTuple):
    """How far may the next range of a partition go?"""

    partition: int
    uid: Uid
    epoch: Epoch
    start: int
    most_entries: int
    most_bytes: int = 0
    """Of keys, values and headers; 0: any. One entry may have more."""


class Ahead(NamedTuple):
    """So far. There is nothing where `end` is the start that was asked for."""

    end: int
    last: int
    """The last entry that is there, which a later range may reach."""
    first: int
    """The first entry behind the start."""
    size: int
    """Bytes of the keys, values and headers up to the end, about."""


class Stale(NamedTuple):
    """The one asked for does not own the partition at that epoch."""


class Paused(NamedTuple):
    """The partition changes hands: no new range begins."""


class LaterQuery(NamedTuple):
    """A later query reads the queue: this one is over."""

    number: int


class RangeToLog(NamedTuple):
    """What Spark has in its offset log, of one partition."""

    partition: int
    start: int
    end: int
    partly: bool = False
    """What is there of it is enough: the queue has said that not all is (Gone)."""


class Logged(NamedTuple):
    """It can be read from now on, until it is finished."""

    seen: int
    """Entries up to this one may have been handed out before."""


class Gone(NamedTuple):
    """The range is not there any more as it was, but its entries from `first` to `last` only; none, where `last` is below."""

    first: int
    last: int


class RangeToSetAside(NamedTuple):
    """No pod can work on it."""

    partition: int
    start: int
    end: int
    failures: int
    """How often its batch has failed."""


class SetAside(NamedTuple):
    """The entries of the range are dead letters now, and it has no rows."""


class RangeToFinish(NamedTuple):
    """Everything up to `end` is done."""

    partition: int
    end: int


class Finished(NamedTuple):
    """It is done at the queue too."""


class Unlogged(NamedTuple):
    """The queue knows of no such range: the end is inside of the one that is logged, or beyond all entries."""


AheadAnswer = Ahead | Stale | Paused | LaterQuery | Gone
LogAnswer = Logged | Gone | SetAside | LaterQuery
SetAsideAnswer = SetAside | Unlogged | LaterQuery
FinishAnswer = Finished | Unlogged | LaterQuery
