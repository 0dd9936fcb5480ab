"""Messages that are sent together with the end of entries, or not at all."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from enum import Enum, auto
from types import TracebackType
from typing import Self

from baton.consumer.entry import HeldEntry
from baton.model.ids import Partition
from baton.model.wording import counted
from baton.queues.output import EACH, MOST_IN_TRANSACTION, Output

Finish = Callable[[Sequence[HeldEntry], Sequence[Output]], None]
"""Hears of entries of one partition that are finished, in order, and of what is sent of them."""
_open_here: ContextVar["Transaction | None"] = ContextVar("baton_transaction", default=None)
"""In this thread, or this task of an event loop."""


class _State(Enum):
    NEW = auto()
    OPEN = auto()
    OVER = auto()


class Transaction:
    """What `Consumer.transaction` returns, for `with`:

    ```python
    with consumer.transaction(entry) as transaction:
        transaction.send("payments", b"paid", key=entry.key, headers={"order": entry.offset})
    ```

    At the end of the block its entries are finished with: what was sent becomes visible to who reads committed
    messages when the group's offset has gone over them, at the same moment. If the block raises, nothing is sent, and its entries
    are not finished. The owner of the partition by then sends it once; a consumer that is no owner any more sends nothing."""

    def __init__(self, entries: HeldEntry | Sequence[HeldEntry], finish: Finish) -> None:
        """Raises TypeError for what was not handed out by a consumer, and ValueError where it is of several partitions, or
        nothing."""
        self._entries = _of_one_partition(entries if isinstance(entries, Sequence) else [entries])
        self._finish = finish
        self._outputs: list[Output] = []
        self._weight = 0
        self._state = _State.NEW
        self._outside: Token[Transaction | None] | None = None

    def send(
        self,
        topic: str,
        value: str | bytes | None,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        partition: int | None = None,
    ) -> None:
        """Send a message to a topic of the same brokers; value None is a tombstone. Without `partition` the key chooses it, as
        Kafka's clients in Java do; without a key, too, all that comes of one partition goes to one. What is sent of a partition
        keeps its order. Raises RuntimeError outside of the block, TypeError and ValueError for what Kafka does not take, and
        ValueError where the block sends more than one transaction may have."""
        if self._state is not _State.OPEN:
            over = "is over" if self._state is _State.OVER else "has not begun"
            raise RuntimeError(f"the transaction {over}: send in its block, `with consumer.transaction(entry) as transaction:`")
        output = Output.of(topic, value, key, headers, partition)
        if self._weight + output.weight > MOST_IN_TRANSACTION:
            raise ValueError(
                f"a transaction sends {MOST_IN_TRANSACTION // 10**6} MB at most, where each message counts for {EACH} bytes more "
                f"than it has, and this block has sent {counted(len(self._outputs), 'message')}: make it of fewer entries, or "
                "put what is large elsewhere"
            )
        self._weight += output.weight
        self._outputs.append(output)

    def __enter__(self) -> Self:
        """Raises RuntimeError where another is open here, or one of the entries is in another, or was."""
        if self._state is not _State.NEW:
            raise RuntimeError("a transaction is one block: call consumer.transaction(entry) for each")
        if _open_here.get() is not None:
            raise RuntimeError("a transaction is open here: send all in its block, or begin this one after its end")
        for entry in self._entries:
            if entry.in_transaction:
                raise RuntimeError(
                    f"{entry.queue}/{entry.partition} entry {entry.offset} is in another transaction, or was finished by one: "
                    "send all that comes of it in one block"
                )
        self._mark(inside=True)
        self._state, self._outside = _State.OPEN, _open_here.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._state = _State.OVER
        assert self._outside is not None
        _open_here.reset(self._outside)
        if kind is None:
            self._finish(self._entries, tuple(self._outputs))
        else:
            self._mark(inside=False)
        self._outputs.clear()

    def _mark(self, *, inside: bool) -> None:
        for entry in self._entries:
            entry.in_transaction = inside


def _of_one_partition(entries: Sequence[HeldEntry]) -> list[HeldEntry]:
    """In their order."""
    for entry in entries:
        if not isinstance(entry, HeldEntry):
            raise TypeError(f"{entry!r} is no entry that a consumer handed out here: give the entry of the handler, or a batch's")
    if not entries:
        raise ValueError("a transaction without an entry: give the entries of which it is what comes")
    if len(partitions := {Partition(entry.queue, entry.partition) for entry in entries}) > 1:
        named = ", ".join(f"{queue}/{number}" for queue, number in sorted(partitions))
        raise ValueError(
            f"the entries are of several partitions ({named}), and each commits by itself: make a transaction for each, "
            "`for entries in batch.by_partition().values():`"
        )
    return sorted({entry.nth: entry for entry in entries}.values(), key=lambda entry: entry.nth)
