"""Questions for one partition each that are asked together: a hand-off of many partitions asks the coordinator once, and not for
each."""

import asyncio
from collections.abc import Awaitable, Callable

from baton.queues.kafka.record import Committed

Ask = Callable[[tuple[int, ...]], Awaitable[tuple[dict[int, Committed], tuple[int, ...]]]]
"""What is committed of these partitions, but for those of which a commit is under way; and these."""


class AskedTogether:
    """Used in one event loop."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._joining: set[int] = set()
        self._question: asyncio.Task[tuple[dict[int, Committed], tuple[int, ...]]] | None = None
        """The next one; it is not sent yet."""

    async def of(self, partition: int) -> Committed | None:
        """What is committed of it, asked for after this call; None: a commit is under way. Raises what `ask` raises."""
        if self._question is None:
            self._question = asyncio.create_task(self._sent(), name="baton-offsets")
        self._joining.add(partition)
        found, _ = await asyncio.shield(self._question)
        return found.get(partition)

    async def _sent(self) -> tuple[dict[int, Committed], tuple[int, ...]]:
        await asyncio.sleep(0)  # whoever asks in this turn of the loop joins
        partitions, self._joining, self._question = self._joining, set(), None
        return await self._ask(tuple(sorted(partitions)))
