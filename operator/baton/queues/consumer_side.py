"""What a consumer needs of the queues of its group."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.kind import QueueKind, load
from baton.queues.kinds import KINDS
from baton.queues.output import FinishedTogether
from baton.queues.protocol import Heard, QueueUnreachable

SURE_FOR = 1.5
"""Seconds for which a queue's word that a partition is ours is taken (`Reader.sure_at`): after a longer silence (a long handler,
a stopped process) it is asked before the next entry is handed out or begun."""


class Reader(Protocol):
    """One queue, read for its owner; `baton.queues.redis.RedisReader` is one.

    Reading, acknowledging and verifying raise StaleOwner, PartitionPaused (reading only) and QueueUnreachable. A queue that gives
    a paused partition away as soon as nothing of it is outstanding also has `keep(partition, epoch)`: from then on the partition
    counts as in use until it is let go of, so that `on_revoked` runs before the next owner begins. One that bounds what a pod may
    have unacknowledged has `is_full()`, for any thread. One whose entries have `Entries.times` counts when one of these is begun,
    by `begin_again(partition, epoch, offset, times)`: False where the entry was finished with, or is a dead letter now. One that
    counts processes which may have ended on an entry has `survived(partition, epoch, offset)`, called after each failed attempt
    at an entry: this process did not end on it. It sends no request and raises nothing.
    """

    def read(self, partition: int, epoch: Epoch, count: int = ..., *, most_bytes: int = ..., new: bool = ...) -> Sequence[Entry]:
        """One that has many at a time answers `baton.queues.entry.Entries` that makes each when it is looked at."""

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = ...) -> None:
        """`soon`: no caller waits for the queue to have it; but it has it when the partition is let go of."""

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count a failed delivery of an entry. False: it was one too many (maxRedeliveries), and the entry is a dead letter."""

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        """Make a dead letter of an entry that no retry would help."""

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = ...) -> Mapping[int, QueueUnreachable]:
        """Nothing more is done with what was read of these under these epochs. The queue has so many seconds to take what was
        acknowledged, and that this is all. The answer: of which it has not, and why; it is told once more when they are let go of
        again. `give_up`: they are not told again, and the next owner gets what the queue has not taken."""

    def verify(self, partition: int, epoch: Epoch) -> None:
        """Ask the queue whether the partition is still the pod's. Raises StaleOwner if it is not."""

    def sure_at(self, partition: int) -> float:
        """When the last question was asked by whose answer the partition was this process' (monotonic): what was asked of the
        queue, not when its answer was looked at, for a process may be stopped between the two. 0: nothing was asked yet."""

    def ready(self, partition: int, epoch: Epoch) -> bool:
        """There may be something to read now, as far as is known. Asks no server."""

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """Have `woken` called once, from any thread, when there may be something to read in one of these that are at rest. This
        returns at once. It stands for what was asked for before; `woken` always is the same."""

    def close(self) -> None: ...


class TransactionalReader(Reader, Protocol):
    """Of a kind with transactions (`QueueKind.transactions`)."""

    def ack(
        self,
        partition: int,
        epoch: Epoch,
        offsets: Sequence[str],
        *,
        soon: bool = ...,
        together: Sequence[FinishedTogether] = ...,
    ) -> None:
        """`together`: some of these, and what is sent in the transaction that finishes them."""


class Announcements(Protocol):
    """What the pod's queues announce; `baton.queues.redis.RedisAnnouncements` is one. Raise QueueUnreachable."""

    def wait(self, timeout: float) -> Mapping[Partition, Heard]:
        """The owner records of partitions that concern the pod, as they are now; nothing after `timeout` seconds."""

    def look(self, partitions: Iterable[Partition]) -> Mapping[Partition, Heard]: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


class ConsumerSide(Protocol):
    """The queues of one kind, as a pod of one group has them."""

    def reader(self, queue: QueueName) -> Reader:
        """It connects when it is first asked something."""

    def announcements(self) -> Announcements | None:
        """None: the queues announce nothing, and hand-offs wait for the ledger."""


OpenConsumerSide = Callable[[str, str, Uid], ConsumerSide]
"""`QueueKind.consumer`, given what `QueueKind.variable` says, the group (namespace/name) and the pod's UID. Raises
QueueUnreachable where the address is none."""


def addressed(environment: Mapping[str, str]) -> tuple[QueueKind, str]:
    """The kind of the group's queues, and their address. Raises ValueError where the environment names none, or several."""
    kinds = [kind for kind in KINDS if kind.consumer is not None and kind.variable is not None]
    found = [(kind, environment[kind.variable]) for kind in kinds if kind.variable and environment.get(kind.variable)]
    if not found:
        names = " or ".join(kind.variable or "" for kind in kinds)
        raise ValueError(
            f"set {names} in the container's env, from the Secret with the queue's URL; without a cluster start the program by "
            "`baton dev run -- …`"
        )
    if len(found) > 1:
        names = " and ".join(kind.variable or "" for kind, _ in found)
        raise ValueError(f"{names} are set in the container's env: keep the one of the group's queues, and take the others out")
    return found[0]


def opened(kind: QueueKind, address: str, group: str, uid: Uid) -> ConsumerSide:
    """Raises QueueUnreachable where the address is none."""
    assert kind.consumer is not None
    side: OpenConsumerSide = load(kind.consumer)
    return side(address, group, uid)
