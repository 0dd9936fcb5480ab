"""Transactions: messages that are sent atomically with the end of entries."""

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
"""Called with finished entries of one partition, in order, and with the messages to send."""
_open_here: ContextVar["Transaction | None"] = ContextVar("baton_transaction", default=None)
"""The open transaction of this thread, or of this task of an event loop."""


class _State(Enum):
    NEW = auto()
    OPEN = auto()
    OVER = auto()


class Transaction:
    """A context manager that sends messages and finishes entries atomically; made by `Consumer.transaction`:

    ```python
    with consumer.transaction(entry) as transaction:
        transaction.send("payments", b"paid", key=entry.key, headers={"order": entry.offset})
    ```

    The end of the block finishes the entries. Readers of committed messages see the messages at the same moment at which the
    group's committed offset passes the entries. If the block raises, nothing is sent, and the entries are not finished. Messages
    are sent once, by the partition's owner: a consumer that has lost the partition sends nothing."""

    def __init__(self, entries: HeldEntry | Sequence[HeldEntry], finish: Finish) -> None:
        """Raises TypeError for anything but entries that a consumer handed out, and ValueError for entries of several partitions,
        or no entries."""
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
        """Send a message to a topic of the same brokers. Value None is a tombstone. Without `partition` the key selects the
        partition, as in Kafka's Java clients; without a key, all messages from one source partition go to the same partition.
        Messages from one source partition keep their order. Raises RuntimeError outside of the block, TypeError or ValueError
        for a message that Kafka does not accept, and ValueError if the transaction becomes too large."""
        if self._state is not _State.OPEN:
            over = "is over" if self._state is _State.OVER else "has not begun"
            raise RuntimeError(f"the transaction {over}: send in its block, `with consumer.transaction(entry) as transaction:`")
        output = Output.of(topic, value, key, headers, partition)
        if self._weight + output.weight > MOST_IN_TRANSACTION:
            raise ValueError(
                f"a transaction sends {MOST_IN_TRANSACTION // 10**6} MB at most (each message counts {EACH} bytes more than its "
                f"size), and this block has sent {counted(len(self._outputs), 'message')}: use fewer entries, or store large "
                "values elsewhere"
            )
        self._weight += output.weight
        self._outputs.append(output)

    def __enter__(self) -> Self:
        """Raises RuntimeError if another transaction is open here, or if an entry is or was in another transaction."""
        if self._state is not _State.NEW:
            raise RuntimeError("a transaction is one block: call consumer.transaction(entry) for each")
        if _open_here.get() is not None:
            raise RuntimeError("another transaction is open here: send in its block, or begin this one after its end")
        for entry in self._entries:
            if entry.in_transaction:
                raise RuntimeError(
                    f"{entry.queue}/{entry.partition} entry {entry.offset} is in another transaction, or was finished by one: "
                    "send all its messages in one block"
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
    """Return the entries in their order, without duplicates."""
    for entry in entries:
        if not isinstance(entry, HeldEntry):
            raise TypeError(f"{entry!r} is not an entry that a consumer handed out here: pass the handler's entry, or a batch's")
    if not entries:
        raise ValueError("a transaction without an entry: pass the entries that its messages come from")
    if len(partitions := {Partition(entry.queue, entry.partition) for entry in entries}) > 1:
        named = ", ".join(f"{queue}/{number}" for queue, number in sorted(partitions))
        raise ValueError(
            f"the entries are of several partitions ({named}), which commit separately: make a transaction for each, "
            "`for entries in batch.by_partition().values():`"
        )
    return sorted({entry.nth: entry for entry in entries}.values(), key=lambda entry: entry.nth)
