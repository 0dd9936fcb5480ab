"""A queue and a ledger without servers, for a consumer in the test's own process."""

import time
from collections.abc import Callable, Mapping, Sequence

from baton.consumer import Consumer
from baton.consumer.callbacks import Callbacks
from baton.consumer.handler_options import Deserializers
from baton.consumer.session import Session
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable

ORDERS = QueueName("orders")
Grants = Mapping[int, int]


class InMemoryQueue:
    """Its offsets are 0, 1, 2 …; the keys of its entries go around."""

    def __init__(self, count: int = 0, keys: Sequence[bytes] = (b"k",), redeliveries: int = 0) -> None:
        """So many entries in partition 0. `redeliveries`: the queue's limit, 0 for none."""
        self.unread = {0: [(str(number), keys[number % len(keys)]) for number in range(count)]}
        self.acknowledged: list[str] = []
        self.dead: dict[str, str] = {}
        """Why, by offset."""
        self.retries: list[str] = []
        self.away = False
        self.refused = 0
        """Requests, while it was away."""
        self.told: list[tuple[Mapping[int, Epoch], bool]] = []
        """What was let go of, and whether it was given up then."""
        self.untaken: set[int] = set()
        """Partitions of which it does not take that."""
        self._redeliveries = redeliveries
        self._asked_at = 0.0

    def read(self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = 0, new: bool = True) -> list[Entry]:
        self._ask()
        unread = self.unread.setdefault(partition, [])
        found, unread[:] = (unread[:count], unread[count:]) if new else ([], unread)
        return [Entry(ORDERS, partition, offset, key, b"v", 0, epoch, False) for offset, key in found]

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self._ask()
        self.acknowledged += offsets

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        self._ask()
        self.retries.append(offset)
        if self._redeliveries and self.retries.count(offset) > self._redeliveries:
            self.dead[offset] = why
            return False
        return True

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        self._ask()
        self.dead[offset] = why

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        self.told.append((dict(partitions), give_up))
        return {number: QueueUnreachable("it does not take that") for number in partitions if number in self.untaken}

    def verify(self, partition: int, epoch: Epoch) -> None:
        self._ask()

    def sure_at(self, partition: int) -> float:
        return self._asked_at

    def ready(self, partition: int, epoch: Epoch) -> bool:
        return bool(self.unread.get(partition))

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """Nothing comes by itself."""

    def close(self) -> None: ...

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        if self.away:
            self.refused += 1
            raise QueueUnreachable("it is away")


class InMemoryLedger:
    """What a consumer owns, and what is called back."""

    def __init__(self, owned: Grants, revoking: Grants | None = None) -> None:
        self._changed: Callable[[], None] = lambda: None
        self.says(owned, revoking)

    def says(self, owned: Grants, revoking: Grants | None = None) -> None:
        grants = [{ORDERS: {number: Epoch(epoch) for number, epoch in some.items()}} for some in (owned, revoking or {})]
        self._entry = MemberEntry("shop/orders", MemberId("pod"), Uid("u"), 1, True, *grants)
        self._changed()

    def current(self) -> MemberEntry:
        return self._entry

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def close(self) -> None: ...


def consumer_of(
    queue: InMemoryQueue,
    ledger: InMemoryLedger | None = None,
    callbacks: Callbacks | None = None,
    deserializers: Deserializers | None = None,
    session: Session | None = None,
    transactions: bool = False,
) -> Consumer:
    """Of partition 0, if no ledger says otherwise."""
    return Consumer(
        lambda name: queue,
        ledger or InMemoryLedger({0: 1}),
        Uid("u"),
        session,
        callbacks=callbacks,
        deserializers=deserializers,
        transactions=transactions,
    )
