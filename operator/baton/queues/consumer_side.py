"""What a consumer asks of the queues of its group."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.kind import QueueKind, load
from baton.queues.kinds import KINDS
from baton.queues.output import FinishedTogether
from baton.queues.protocol import Heard, QueueUnreachable

SURE_FOR = 1.5
"""Seconds for which a confirmed ownership of a partition counts (`Reader.sure_at`). After that (a long handler, a stopped
process) the consumer calls `Reader.verify` before it hands out or starts the next entry."""


class Reader(Protocol):
    """Reads one queue for the owner of partitions, such as `baton.queues.redis.RedisReader`.

    Reading, acknowledging and verifying raise StaleOwner, PartitionPaused (reading only) and QueueUnreachable.

    Methods that only some kinds have:

    - `keep(partition, epoch)`, if the queue hands over a paused partition as soon as none of its entries is outstanding: the
      partition counts as in use until `release`, so that `on_revoked` returns before the next owner begins.
    - `is_full()`, if the queue limits a pod's unacknowledged entries: whether the limit is reached. Safe from any thread.
    - `begin_again(partition, epoch, offset, times)`, if `Entries.times` is set: count another attempt at an entry, before it
      begins. False: the entry is finished, or a dead letter now.
    - `survived(partition, epoch, offset)`, if the queue counts processes that may have ended on an entry: called after each
      failed attempt at an entry, which this process survived. Sends no request and raises nothing.
    """

    def read(self, partition: int, epoch: Epoch, count: int = ..., *, most_bytes: int = ..., new: bool = ...) -> Sequence[Entry]:
        """Return up to `count` entries in order. A reader of large batches returns `baton.queues.entry.Entries`, which creates
        each entry on access. `new` False: only entries that this owner was handed before."""

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = ...) -> None:
        """Acknowledge entries. `soon`: may return before the queue has the acknowledgement; `release` delivers it at the
        latest."""

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count a failed delivery of an entry. False: the entry exceeded maxRedeliveries and is a dead letter now."""

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        """Move an entry that cannot succeed to the dead letters, with the reason `why`."""

    def release(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = ...) -> Mapping[int, QueueUnreachable]:
        """Release partitions: the pod does nothing more with entries read under these epochs. Takes up to `within` seconds to
        deliver pending acknowledgements and the release to the queue. Returns the partitions for which that failed; calling again
        retries them. `give_up`: do not try; the next owner gets the entries whose acknowledgement did not arrive."""

    def verify(self, partition: int, epoch: Epoch) -> None:
        """Ask the queue whether the pod still owns the partition. Raises StaleOwner if it does not."""

    def sure_at(self, partition: int) -> float:
        """Time at which the last request was sent whose answer confirmed the ownership (monotonic; 0: none yet). The time of the
        request, not of its answer, as a process may be stopped between the two."""

    def ready(self, partition: int, epoch: Epoch) -> bool:
        """Whether there may be something to read now. Sends no request."""

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """Have `woken` called once, from any thread, when one of these idle partitions may have something to read. Returns at
        once, and replaces the previous call. `woken` is the same function every time."""

    def close(self) -> None: ...


class TransactionalReader(Reader, Protocol):
    """The reader of a kind with transactions (`QueueKind.transactions`)."""

    def ack(
        self,
        partition: int,
        epoch: Epoch,
        offsets: Sequence[str],
        *,
        soon: bool = ...,
        together: Sequence[FinishedTogether] = ...,
    ) -> None:
        """`together`: some of these offsets with the outputs to send in the transaction that finishes them."""


class Announcements(Protocol):
    """Changes of owner records that the pod's queues announce. Methods raise QueueUnreachable."""

    def wait(self, timeout: float) -> Mapping[Partition, Heard]:
        """Wait for announcements and return the current owner records of the partitions; empty after `timeout` seconds."""

    def look(self, partitions: Iterable[Partition]) -> Mapping[Partition, Heard]:
        """Return the current owner records of these partitions, as far as they exist."""

    def interrupt(self) -> None:
        """End the current `wait` of another thread, or the next one."""

    def close(self) -> None: ...


class ConsumerSide(Protocol):
    """The queues of one kind, for a pod of one group."""

    def reader(self, queue: QueueName) -> Reader:
        """Return a reader, which connects at its first request."""

    def announcements(self) -> Announcements | None:
        """None: the queues announce nothing, and hand-offs wait for the ledger."""


OpenConsumerSide = Callable[[str, str, Uid], ConsumerSide]
"""`QueueKind.consumer`, given the address (the value of `QueueKind.variable`), the group (namespace/name) and the pod's UID.
Raises QueueUnreachable for an invalid address."""


def addressed(environment: Mapping[str, str]) -> tuple[QueueKind, str]:
    """Return the kind of the group's queues and their address. Raises ValueError if the environment has none, or several."""
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
    """Open the consumer's side of a kind. Raises QueueUnreachable for an invalid address."""
    assert kind.consumer is not None
    side: OpenConsumerSide = load(kind.consumer)
    return side(address, group, uid)
