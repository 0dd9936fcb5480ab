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
    """An entry that is in the queue.

    ```python
    sent = producer.send("customer-17", b"shipped")
    print(sent.partition, sent.offset, sent.duplicate)
    ```
    """

    partition: int
    offset: str | None
    """As its consumer has it. None: not known, for an earlier try had brought it there, or it waits while its key moves."""
    duplicate: bool = False
    """An earlier try had brought it there, whose answer was lost. It is there once."""


class Delivery(Protocol):
    """The outcome of an entry that was given to `Producer.produce`.

    ```python
    delivery = producer.produce("customer-17", b"shipped")
    print(delivery.result(timeout=5).offset)
    ```
    """

    def done(self) -> bool:
        """Return whether the outcome is known."""

    def result(self, timeout: float | None = None) -> Sent:
        """Wait for the outcome. Raises QueueUnreachable if the entry may not be in the queue, and TimeoutError after `timeout`
        seconds (None: no limit)."""

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Return what `result` raises, or None."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call it with the delivery when the outcome is known, also if it is known already."""


class Producer(Protocol):
    """Sends entries to one queue. Entries of a key stay in order, and a retry adds nothing twice.

    ```python
    def ship(producer: Producer, orders: Sequence[Order]) -> None:
        producer.send_many((order.customer, order.to_json()) for order in orders)
    ```
    """

    def send(self, key: Key, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None) -> Sent:
        """Send one entry; returns when the queue has it. Without `partition` the key chooses it (None: any). Raises
        QueueUnreachable, and ValueError if another try would not help."""

    def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Send (key, value) or (key, value, headers); returns when the queue has all of them. Raises as `send`."""

    def produce(
        self,
        key: Key,
        value: bytes | str,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        on_delivery: Callable[[Any], object] | None = None,
    ) -> Delivery:
        """Send it a little later, together with others; waits only for room in the buffer. `on_delivery` is called with the
        delivery when the outcome is known."""

    def flush(self, within: float | None = None) -> None:
        """Wait for the outcome of all that was produced, for `within` seconds at most. Raises QueueUnreachable if an entry may
        not be in the queue and the program did not look at its delivery."""

    def close(self, within: float | None = None) -> None:
        """`flush`, and give up what was not sent in time. Raises as `flush`."""

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
