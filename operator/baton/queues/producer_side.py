"""What a program sends to a queue with, whatever its kind."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self

from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

Headers = Mapping[str, bytes | str]
Key = bytes | str | None
Given = tuple[Key, bytes | str] | tuple[Key, bytes | str, Headers | None]
"""Key, value, and headers."""


class Sent(NamedTuple):
    """An entry that is in the queue."""

    partition: int
    offset: str | None
    """As its consumer has it. None: not known, for an earlier try had brought it there, or it waits while its key moves."""
    duplicate: bool = False
    """An earlier try had brought it there, whose answer was lost. It is there once."""


class Delivery(Protocol):
    """What becomes of an entry that was given to `Producer.produce`."""

    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> Sent:
        """Raises QueueUnreachable where the entry may not be in the queue, and TimeoutError after `timeout` seconds."""

    def exception(self, timeout: float | None = None) -> Exception | None: ...
    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...


class Producer(Protocol):
    """Sends entries to one queue. Entries of a key stay in order, and a retry adds nothing twice."""

    def send(self, key: Key, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None) -> Sent:
        """Returns when the queue has it. Raises QueueUnreachable, and ValueError for what no other try would help."""

    def send_many(self, entries: Iterable[Given]) -> list[Sent]: ...
    def produce(
        self,
        key: Key,
        value: bytes | str,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        on_delivery: Callable[[Any], object] | None = None,
    ) -> Delivery:
        """Waits for room in the buffer only."""

    def flush(self, within: float | None = None) -> None:
        """Raises QueueUnreachable where an entry is not in the queue and the program did not look at its delivery."""

    def close(self, within: float | None = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class InWith:
    """A producer in `with`, and at the end of the process: what `close` raises beside another exception is logged."""

    def close(self, within: float | None = None) -> None:
        """As `Producer.close`."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
        else:
            self.end()

    def end(self) -> None:
        """Close it where another exception is on its way, or the process ends."""
        try:
            self.close()
        except QueueUnreachable as why:
            log.error("%s", why)
