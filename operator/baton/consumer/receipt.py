"""An acknowledgement on its way to the queue."""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future


class Acknowledgement:
    """Says when the queue has taken what was acknowledged. Nobody has to wait for it."""

    def __init__(self) -> None:
        self._future: Future[bool] = Future()
        self._open = 0
        self._lost = False

    def wait(self, timeout: float | None = None) -> bool:
        """True: the queue has it. False: it was not this consumer's any more, and comes to its next owner, marked redelivered.

        Raises TimeoutError after `timeout` seconds.
        """
        return self._future.result(timeout)

    def __await__(self) -> Generator[None, None, bool]:
        return asyncio.wrap_future(self._future).__await__()

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
        if self._open <= 0 and not self._future.done():
            self._future.set_result(not self._lost)
