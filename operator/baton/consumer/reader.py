"""What the consumer needs of a queue."""

from collections.abc import Sequence
from typing import Protocol

from baton.model.ids import Epoch
from baton.queues.entry import Entry


class Reader(Protocol):
    """One queue, read for its owner; `baton.queues.redis.RedisReader` is one.

    Reading, acknowledging and verifying raise StaleOwner, PartitionPaused (reading only) and QueueUnreachable.
    """

    def read(self, partition: int, epoch: Epoch, count: int = ..., *, new: bool = ...) -> list[Entry]: ...
    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str]) -> None: ...
    def verify(self, partition: int, epoch: Epoch) -> None: ...
    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...
