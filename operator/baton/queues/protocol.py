"""What the operator asks of a queue. One adapter per kind of queue; the operator knows nothing else of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from baton.model.ids import Epoch, Uid


class QueueUnreachable(Exception):  # noqa: N818 - a condition's reason, in the user's words
    """The queue does not answer, or refuses the password. The message says what, where and the cure.

    ```python
    try:
        producer.send("customer-17", b"shipped")
    except QueueUnreachable as error:
        print("it may not be in the queue:", error)
    ```

    Work goes on when the queue is back.
    """


class PartitionUnavailable(QueueUnreachable):
    """One partition's own trouble: the queue answers, and does what is asked of the others. Only that partition waits."""


class QueueConflict(Exception):  # noqa: N818 - likewise
    """The queue belongs to another group, or is not what the spec says. The message names both and the cure."""


class Claimant(NamedTuple):
    """A ConsumerGroup that wants a queue for itself."""

    group: str
    """namespace/name. A group of another cluster may have the same."""
    uid: str
    """Of the ConsumerGroup: no other has it, in this cluster or another, nor one that is made again under the name."""
    takes_over: frozenset[str] = frozenset()
    """UIDs of groups from which it may take the queue, by annotation."""
    incarnation: str | None = None
    """Of the queue, as the group first knew it; None: it knows none yet."""


IN_USE = -1
"""The owner of a paused partition has not released it, and no number of entries says what it still does."""


class Ownership(NamedTuple):
    """The owner record at the queue. `uid` None: no owner. Epoch 0: never granted."""

    uid: Uid | None
    epoch: Epoch
    paused: bool = False


NO_OWNER = Ownership(None, Epoch(0))


class Heard(NamedTuple):
    """The owner record as a pod hears it."""

    uid: Uid | None
    epoch: Epoch
    paused: bool = False
    within: float | None = None
    """Seconds that a paused partition's owner had from the pause on, where the queue was told."""


class Resizing(NamedTuple):
    """A change of the number of partitions that is under way."""

    before: int
    after: int
    waits_for: tuple[int, ...]
    """Partitions of which entries are to be done that came before the change."""
    more: bool = False
    """There is more to do at once."""


class QueueCheck(NamedTuple):
    """What a queue answers to one look at it. A kind leaves out what it does not know."""

    incarnation: str | None = None
    """Identifies the run of the server; a new one means that owner records may have been rolled back. None: does not apply, or
    the queue has not been made yet."""
    partitions: int | None = None
    """How many it has: while their number changes, the larger one. None: it has not been made yet."""
    owners: Mapping[int, Ownership] = MappingProxyType({})
    """All owner records, tombstones of withdrawn partitions included."""
    lag: Mapping[int, int] = MappingProxyType({})
    """Entries not yet acknowledged or committed, per partition."""
    finished: int | None = None
    """Entries acknowledged or committed since the queue was made, of all partitions. Only ever compared with another look's."""
    stale_refused: Mapping[int, int] | None = None
    """How often each partition refused a stale owner since it was made. None: the queue does not count that."""
    dead_letters: Mapping[int, int] | None = None
    """How many entries of each partition were set aside since it was made. None: likewise."""
    warnings: tuple[str, ...] = ()
    """What the server's configuration puts at risk (no persistence, eviction): sentences that name the cure."""
    zones: Mapping[int, str] = MappingProxyType({})
    """Where the server of each partition is, for assignors that look at zones."""
    vanished: int | None = None
    """How many entries were gone before they were finished with, since the queue was made. None: the queue cannot tell."""
    unfinished: Mapping[int, tuple[str, int]] = MappingProxyType({})
    """Of partitions where that is known: the offset of the oldest entry that is not finished with, and how often it was handed
    out, where that is more than once."""
    letters: int | None = None
    """The number of dead letters now. None: the queue keeps none."""
    oldest: float | None = None
    """Seconds since the oldest entry of `lag` was sent. Left out while entries are finished with, as it costs another look."""
    rest: float = 0.0
    """Seconds to wait at least before the next look, as many other queues of the server are looked at too."""


class QueueAdapter(Protocol):
    """One queue as one group uses it. Every method may raise QueueUnreachable; all are safe to repeat."""

    fenced: bool
    answers_within: float
    """As its kind says, both."""

    async def check(self) -> QueueCheck:
        """All that is to be known of the queue, in as few round trips as it takes. A restart of the server that is seen here was
        before the owner records were read."""

    async def ensure(self, count: int | None) -> Resizing | None:
        """Make the queue with `count` partitions and record the claimant as its owner. Raises QueueConflict where it belongs to
        another group, which may be one of the same name in another cluster. None: as many as it has; one that has not been made
        is not made.

        Where it has another count, the change is begun, or taken as far as it goes now; until the answer is None, ask again. A
        change that is under way is ended before another begins."""

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None
    ) -> int | Ownership | None:
        """Stop delivery under `epoch` and return how much is outstanding under it; acknowledgements stay allowed. `within`:
        seconds that the owner has to finish, for it to know. `then`: who is to be granted it, as the ledger has it, and
        may listen for that. Where the queue's pods hand over by themselves, the owner makes this the owner record when it
        lets go.

        Does nothing where another epoch is in force: then nothing that was handed out under `epoch` can still be
        acknowledged, and the answer is 0, or the owner since then, if the one before may have handed it over. None: this queue
        cannot say (External). IN_USE: ask again.
        """

    async def outstanding(self, partition: int) -> int | Ownership | None:
        """Entries delivered under the epoch in force, or in a range that a Spark query reads, and not finished with; an owner,
        IN_USE and None: as `pause`."""

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """Make `uid` the owner if `epoch` is above the recorded one, or both are equal to what is recorded.

        Returns the record that then stands there, durable as far as the server can make it.
        """

    async def release(self) -> bool:
        """The group gives the queue up: another may take it. Entries stay. Does nothing where the queue is another group's.
        False: a part of it is done; ask again, at once."""

    async def close(self) -> None:
        """Close connections. The adapter is not used after that."""
