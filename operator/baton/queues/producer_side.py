"""What programs send to a queue with, for all kinds of queues."""

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
    """The offset that its consumer sees. None: not known, as an earlier attempt stored the entry, or its key is moving to another
    partition."""
    duplicate: bool = False
    """An earlier attempt, whose answer was lost, stored the entry. It is in the queue once."""


class Delivery(Protocol):
    """The outcome of an entry that was passed to `Producer.produce`.

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
        """Wait like `result`, and return what it raises, or None."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call `callback` with the delivery once the outcome is known; at once if it is known already."""


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
        """Send one entry shortly, together with others; waits only for room in the buffer. `on_delivery` is called with the
        delivery when the outcome is known."""

    def flush(self, within: float | None = None) -> None:
        """Wait up to `within` seconds for the outcome of all produced entries. Raises QueueUnreachable if an entry may not be in
        the queue and the program did not look at its delivery."""

    def close(self, within: float | None = None) -> None:
        """`flush`, and give up on entries that were not sent in time. Raises as `flush`."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class CloseOnExit:
    """Makes a producer a context manager. If another exception is already being raised, errors of `close` are only logged."""

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
        """Close the producer, and log errors instead of raising them: after another exception, or at the end of the process."""
        try:
            self.close()
        except QueueUnreachable as why:
            log.error("%s", why)
