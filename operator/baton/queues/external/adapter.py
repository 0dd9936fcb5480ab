"""A queue that Baton cannot reach: its partitions are only numbers, and only the consumer's word says that one is free."""

from collections.abc import Mapping

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Owner


class ExternalQueue:
    """QueueAdapter (queues/protocol.py) for External sources. Nothing enforces its grants, and it keeps no records."""

    fenced = False

    def __init__(self) -> None:
        self._partitions: int | None = None

    async def incarnation(self) -> str | None:
        return None

    async def warnings(self) -> tuple[str, ...]:
        return ()

    async def partitions(self) -> int | None:
        return self._partitions

    async def ensure(self, count: int) -> None:
        self._partitions = count

    async def pause(self, partition: int, epoch: Epoch, within: float | None = None) -> int | None:
        return None

    async def outstanding(self, partition: int) -> int | None:
        return None

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        return Owner(uid, epoch)

    async def owners(self) -> Mapping[int, Owner]:
        return {}

    async def lag(self) -> Mapping[int, int]:
        return {}

    async def stale_refused(self) -> Mapping[int, int]:
        return {}

    async def dead_letters(self) -> Mapping[int, int]:
        return {}

    async def release(self) -> None:
        self._partitions = None

    async def close(self) -> None:
        pass
