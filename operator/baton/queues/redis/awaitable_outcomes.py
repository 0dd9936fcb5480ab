"""What tasks wait for: what became of an entry, or of several."""

import asyncio
from collections.abc import Callable, Generator, Sequence

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.outgoing import SendListener, Sent, Waiting, all_known
from baton.queues.redis.send_outcome import SendOutcome, UnseenFailures


class Awaited(SendListener):
    """Something that tasks wait for."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def known_by_now(self) -> bool:
        raise NotImplementedError

    async def wait(self) -> None:
        while not self.known_by_now():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def settled(self) -> None:
        if self.known_by_now():
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)


class AllAwaited(Awaited):
    """The outcome of all of these."""

    def __init__(self, entries: Sequence[Waiting]) -> None:
        super().__init__()
        self._known = all_known(entries)
        for entry in entries:
            entry.told = self

    def known_by_now(self) -> bool:
        return self._known()


class AsyncPendingSend(SendOutcome, Awaited):
    """What becomes of an entry that was given to `AsyncRedisProducer.produce`. `await` it: where the entry is; raises
    QueueUnreachable where it may not be in the queue. A wait that is cancelled changes nothing."""

    def __init__(self, unseen: UnseenFailures, on_delivery: "Callable[[AsyncPendingSend], object] | None") -> None:
        SendOutcome.__init__(self, unseen, on_delivery)
        Awaited.__init__(self)

    def __await__(self) -> Generator[object, None, Sent]:
        return self._result().__await__()

    async def _result(self) -> Sent:
        self.seen = True
        await self.wait()
        return self.known()

    def result(self) -> Sent:
        """What `await` answers, of one that is done, as in a callback. Raises asyncio.InvalidStateError while it is under way."""
        if not self.done():
            raise asyncio.InvalidStateError("the entry is under way still: await the delivery")
        return self.known()

    def exception(self) -> Exception | None:
        """Likewise: what `result` raises of an entry that may not be in the queue, or None."""
        try:
            self.result()
        except (QueueUnreachable, ValueError) as error:
            return error
        return None

    def known_by_now(self) -> bool:
        return self.entry.outcome is not None

    def settled(self) -> None:
        SendOutcome.settled(self)
        Awaited.settled(self)
