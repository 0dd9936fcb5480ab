"""Tries an owner's operations directly at the queue: with the credentials of a former owner all must be rejected."""

from collections.abc import Callable, Iterator, Mapping

from baton.model.ids import Epoch
from baton.queues.fence import StaleOwner
from baton.queues.redis import RedisReader
from demo.records import Attempt


def attempts(url: str, queue: str, uid: str, grants: Mapping[int, int]) -> Iterator[Attempt]:
    """Try every operation of the queue, for each partition and the epoch at which `uid` owned it."""
    with RedisReader(url, queue, uid) as reader:
        for partition, number in sorted(grants.items()):
            for operation, call in _operations(reader, partition, Epoch(number)):
                yield Attempt(partition, operation, number, _refused(call))


def _operations(reader: RedisReader, partition: int, epoch: Epoch) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "read", lambda: reader.read(partition, epoch, 10)
    yield "acknowledge", lambda: reader.ack(partition, epoch, ["1-0"])


def _refused(call: Callable[[], object]) -> bool:
    """Whether the fence rejected the call; any other error would mean that the call got past the fence."""
    try:
        call()
    except StaleOwner:
        return True
    return False
