"""An acknowledgement on its way to the queue."""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress


class Acknowledgement:
    """Says when the queue has taken what was acknowledged. Waiting for it is optional, and a wait that is cancelled changes
    nothing: another, or a later one, gets the answer."""

    def __init__(self) -> None:
        self._future: Future[bool] = Future()
        self._open = 0
        self._lost = False

    def wait(self, timeout: float | None = None) -> bool:
        """True: the queue has it (Kafka: as far as its one offset goes over it; behind an entry that is not finished with, this
        process knows it alone). False: it was not this consumer's any more, and comes to its next owner, marked redelivered.

        Raises TimeoutError after `timeout` seconds.
        """
        return self._future.result(timeout)

    def __await__(self) -> Generator[None, None, bool]:
        return self._told().__await__()

    async def _told(self) -> bool:
        mine: Future[bool] = Future()  # of this wait alone, for who cancels an asyncio future cancels what it wraps

        def tell(answer: Future[bool]) -> None:
            if mine.set_running_or_notify_cancel():
                mine.set_result(answer.result())

        self._future.add_done_callback(tell)
        return await asyncio.wrap_future(mine)

    # For the consumer's loop

    def expect(self, parts: int) -> None:
        """It is complete when so many parts are."""
        self._open = parts
        self._end()

    def part(self, *, taken: bool) -> None:
        self._open -= 1
        self._lost |= not taken
        self._end()

    def lost(self) -> None:
        """Some of it was nobody's to acknowledge."""
        self._lost = True

    def _end(self) -> None:
        if self._open <= 0:
            with suppress(InvalidStateError):  # it is known, and the first answer stands
                self._future.set_result(not self._lost)
