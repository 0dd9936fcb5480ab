"""What the operator asks of a queue. Each kind of queue has one adapter, and the operator uses nothing else of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from baton.model.ids import Epoch, Uid


class QueueUnreachable(Exception):  # noqa: N818 - a condition's reason, in the user's words
    """The queue does not answer, or rejects the password. The message names the problem, the place and the cure.

    ```python
    try:
        producer.send("customer-17", b"shipped")
    except QueueUnreachable as error:
        print("it may not be in the queue:", error)
    ```

    Work resumes when the queue is reachable again.
    """


class PartitionUnavailable(QueueUnreachable):
    """One partition is unavailable, while the queue answers for the others. Only that partition waits."""


class QueueConflict(Exception):  # noqa: N818 - likewise
    """The queue belongs to another group, or does not match the spec. The message names both sides and the cure."""


class Claimant(NamedTuple):
    """A ConsumerGroup that claims a queue."""

    group: str
    """namespace/name. A group of another cluster may have the same name."""
    uid: str
    """UID of the ConsumerGroup, unique across clusters. A group that is created again under the same name has another UID."""
    takes_over: frozenset[str] = frozenset()
    """UIDs of groups from which this group may take the queue, by annotation."""
    incarnation: str | None = None
    """The queue's incarnation that the group has recorded; None: none yet."""


IN_USE = -1
"""Answer for a paused partition that its owner has not released, although no entries are counted as outstanding."""


class Ownership(NamedTuple):
    """The owner record at the queue. `uid` None: no owner. Epoch 0: never granted."""

    uid: Uid | None
    epoch: Epoch
    paused: bool = False


NO_OWNER = Ownership(None, Epoch(0))


class Heard(NamedTuple):
    """The owner record as a pod receives it."""

    uid: Uid | None
    epoch: Epoch
    paused: bool = False
    within: float | None = None
    """Seconds that the owner of a paused partition got at the time of the pause; None: not recorded at the queue."""


class Resizing(NamedTuple):
    """A change of the number of partitions in progress."""

    before: int
    after: int
    waits_for: tuple[int, ...]
    """Partitions with unfinished entries that were sent before the change."""
    more: bool = False
    """Whether the next portion can be done at once."""


class QueueCheck(NamedTuple):
    """The state of a queue at one check. A kind leaves out what it does not know."""

    incarnation: str | None = None
    """Identifies the run of the server; a new one means that owner records may have been rolled back. None: does not apply, or
    the queue does not exist yet."""
    partitions: int | None = None
    """Number of partitions; during a change the larger number. None: the queue does not exist yet."""
    owners: Mapping[int, Ownership] = MappingProxyType({})
    """All owner records, including tombstones of withdrawn partitions."""
    lag: Mapping[int, int] = MappingProxyType({})
    """Entries not yet acknowledged or committed, per partition."""
    finished: int | None = None
    """Entries acknowledged or committed in all partitions since the queue was created. Only compared with other checks."""
    stale_refused: Mapping[int, int] | None = None
    """How often each partition has rejected a stale owner since it was created. None: the queue does not count that."""
    dead_letters: Mapping[int, int] | None = None
    """Entries of each partition moved to dead letters since it was created. None: the queue does not count that."""
    warnings: tuple[str, ...] = ()
    """Risks of the server's configuration (no persistence, eviction): sentences that name the cure."""
    zones: Mapping[int, str] = MappingProxyType({})
    """Zone of each partition's server, for assignors that use zones."""
    vanished: int | None = None
    """Entries lost before they were finished, since the queue was created. None: the queue does not count them."""
    unfinished: Mapping[int, tuple[str, int]] = MappingProxyType({})
    """Per partition, the offset of the oldest unfinished entry and how often it was handed out. Only entries that were handed
    out more than once."""
    letters: int | None = None
    """The current number of dead letters. None: the queue keeps none."""
    oldest: float | None = None
    """Seconds since the oldest entry of `lag` was sent. Left out while entries are being finished, as it costs another
    request."""
    rest: float = 0.0
    """Minimum seconds before the next check, if many queues share the server."""


class QueueAdapter(Protocol):
    """One queue as one group uses it. Every method may raise QueueUnreachable and can be repeated safely."""

    fenced: bool
    """As `QueueKind.fenced`."""
    answers_within: float
    """As `QueueKind.answers_within`."""

    async def check(self) -> QueueCheck:
        """Return the state of the queue, in as few round trips as possible. Must read the incarnation before the owner records,
        so that these records are at least as new as the incarnation."""

    async def ensure(self, count: int | None) -> Resizing | None:
        """Create the queue with `count` partitions and record the claimant as its group. None: keep the number of partitions, and
        do not create a missing queue. Raises QueueConflict if the queue belongs to another group, perhaps one with the same name
        in another cluster.

        If the queue has another number of partitions, start the change, or continue it as far as possible now. Call again
        until the answer is None. A change in progress ends before another starts."""

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None
    ) -> int | Ownership | None:
        """Stop delivery under `epoch` and return the number of entries outstanding under it. Acknowledgements stay allowed.

        `within`: seconds that the owner has to finish, recorded for the owner. `then`: the next owner record according to the
        ledger. With direct hand-offs the owner itself writes it when it releases the partition.

        Does nothing if another epoch is in force. Entries handed out under `epoch` can then no longer be acknowledged, so the
        answer is 0, or the current owner record if the previous owner may have written it. None: this queue cannot tell
        (External). IN_USE: ask again.
        """

    async def outstanding(self, partition: int) -> int | Ownership | None:
        """Count unfinished entries that were delivered under the epoch in force, or in a range that a Spark query reads. An
        owner record, IN_USE and None: as `pause`."""

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """Make `uid` the owner if `epoch` is above the recorded epoch. None: no owner. Granting the recorded owner and epoch
        again changes nothing.

        Returns the resulting record, as durable as the server can make it.
        """

    async def release(self) -> bool:
        """Give up the group's claim on the queue, so that another group may take it. Entries stay. Does nothing if the queue
        belongs to another group. False: only a part is done; call again at once."""

    async def close(self) -> None:
        """Close connections. The adapter is not used afterwards."""
