"""How a handler works: how many at a time, in which order, in which batches, and what it acknowledges itself."""

import logging
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import inf
from typing import Literal, TypedDict

from baton.consumer.dispatcher import BatchSize
from baton.consumer.entry import HeldEntry
from baton.consumer.outcome import DeadLetter, Outcome, Retry, bounded, outcome_of, said, then
from baton.consumer.partition import EntrySequence
from baton.model.ids import QueueName
from baton.model.options import function, number, whole
from baton.model.wording import one_line

log = logging.getLogger(__name__)

Deserializer = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Deserializers:
    """Functions of bytes; None: bytes stay bytes."""

    key: Deserializer | None = None
    value: Deserializer | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for what cannot be called with bytes: each entry would be a dead letter."""
        function("key_deserializer", self.key, "key")
        function("value_deserializer", self.value, "value")

    def apply(self, entries: Sequence[HeldEntry]) -> tuple[Sequence[HeldEntry], list[tuple[Sequence[HeldEntry], Outcome]]]:
        """What can be read, in order; and what cannot, which no other try would mend unless the deserializer raises Retry. What
        is behind such an entry in its partition (or key) is in neither."""
        if self.key is None and self.value is None:
            return entries, []
        readable: list[HeldEntry] = []
        others: list[tuple[Sequence[HeldEntry], Outcome]] = []
        held_up: set[EntrySequence] = set()
        for entry in entries:
            if entry.sequence in held_up:
                continue
            try:
                readable.append(self._applied(entry))
            except Retry as error:
                place = (entry.queue, entry.partition, entry.offset)
                outcome = outcome_of(error)
                log.warning("%s/%d entry %s cannot be read yet: %s; %s", *place, one_line(outcome.why, 500), then(outcome))
                others.append(([entry], outcome))
                held_up.add(entry.sequence)
            except (Exception, CancelledError) as error:  # of an event loop inside it: a function is not cancelled
                others.append(([entry], DeadLetter(bounded(f"it cannot be read: {said(error)}"))))
        return readable, others

    def _applied(self, entry: HeldEntry) -> HeldEntry:
        key = entry.key if self.key is None or entry.key is None else self.key(entry.key)
        value = entry.value if self.value is None or entry.value is None else self.value(entry.value)
        read = copy(entry)
        read.key, read.value = key, value
        return read


MOST_WORKERS = 10_000
"""As many as one member may have entries of a queue, where the queue says nothing else (maxDeliveredUnacked)."""


class HandlerOptions(TypedDict, total=False):
    """What `Consumer.run` and `Consumer.serve` may be told."""

    concurrency: int
    """How many entries (or batches) are worked on at a time (1; at most 10,000): by threads, or by tasks of one event loop if the
    handler is a coroutine function."""
    order: Literal["partition", "key"]
    """Entries of a partition ("partition"), or of a key ("key"), are worked on one after another."""
    max_entries: int
    """The handler takes a Batch of up to so many entries,"""
    max_bytes: float
    """of up to so many bytes of keys, values and headers (but one entry at least),"""
    max_wait: float
    """that waits up to this many seconds for more once it has something (0.2)."""
    manual_ack: bool
    """Entries are acknowledged by `entry.ack()`, in the handler or later, and not when it returns."""
    dead_letter_on: tuple[type[Exception], ...]
    """Exceptions that are not worth a retry: the entry goes to the dead letters."""
    handler_warn_seconds: float
    """Seconds after which a handler that has not returned is logged (60), and again whenever its time has doubled."""


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """The HandlerOptions after their check, with defaults."""

    concurrency: int = 1
    by_key: bool = False
    batch: BatchSize | None = None
    """It takes batches; None: single entries."""
    manual_ack: bool = False
    dead_letter_on: tuple[type[Exception], ...] = ()
    deserializers: Deserializers = field(default_factory=Deserializers)
    warn_after: float = 60.0
    measure: Callable[[QueueName, float], None] | None = None
    """Is told the seconds that a handler took."""

    @classmethod
    def of(
        cls,
        options: HandlerOptions,
        deserializers: Deserializers,
        measure: Callable[[QueueName, float], None] | None = None,
    ) -> "CheckedOptions":
        """Raises ValueError and TypeError for what cannot be."""
        if unknown := options.keys() - HandlerOptions.__annotations__.keys():
            raise TypeError(f"{', '.join(sorted(unknown))}: no option; there are {', '.join(HandlerOptions.__annotations__)}")
        concurrency, order = options.get("concurrency", 1), options.get("order", "partition")
        whole("concurrency", concurrency, 1, MOST_WORKERS)
        if order not in ("partition", "key"):
            raise ValueError(f"order is {order!r}: set it to 'partition' or 'key'")
        batch = None
        if "max_entries" in options:
            batch = BatchSize(options["max_entries"], options.get("max_bytes", inf), options.get("max_wait", 0.2))
        elif "max_bytes" in options or "max_wait" in options:
            raise ValueError("max_bytes and max_wait are of batches: set max_entries too, and the handler takes a Batch")
        manual, hopeless = options.get("manual_ack", False), options.get("dead_letter_on", ())
        if not isinstance(manual, bool):
            raise TypeError(f"manual_ack is {manual!r}: set it to True or False")
        for one in hopeless if isinstance(hopeless, tuple) else (hopeless,):
            if not isinstance(one, type) or not issubclass(one, BaseException):
                raise TypeError(f"dead_letter_on is {hopeless!r}: set it to a tuple of exceptions, such as (ValueError,)")
            if not issubclass(one, Exception):
                raise TypeError(
                    f"dead_letter_on has {one.__name__}, which ends the program or a task and says nothing of an entry: set it "
                    "to subclasses of Exception, such as (ValueError,)"
                )
        number("handler_warn_seconds", warn_after := options.get("handler_warn_seconds", 60.0), 0.001)
        return cls(concurrency, order == "key", batch, manual, hopeless, deserializers, warn_after, measure)
