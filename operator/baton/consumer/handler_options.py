"""Options of a handler: concurrency, order, batches, deserializers, retries."""

import logging
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from baton.consumer.dispatcher import BatchSize
from baton.consumer.entry import HeldEntry, by_policy
from baton.consumer.outcome import (
    Backoff,
    DeadLetter,
    Outcome,
    Policies,
    Retry,
    bounded,
    described,
    next_step,
    outcome_of,
    policies,
)
from baton.consumer.partition import EntrySequence
from baton.model.options import function, number, whole
from baton.model.wording import one_line

if TYPE_CHECKING:
    from baton.consumer.metrics import ConsumerMetrics

log = logging.getLogger(__name__)

Deserializer = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Deserializers:
    """Functions that convert keys and values from bytes; None: bytes stay bytes."""

    key: Deserializer | None = None
    value: Deserializer | None = None
    model: Callable[[Any], object] | None = None
    """Converts the value, which may be None, to the type in the handler's annotation."""

    def __post_init__(self) -> None:
        """Raises TypeError for a deserializer that cannot be called with bytes: every entry would become a dead letter."""
        function("key_deserializer", self.key, "key")
        function("value_deserializer", self.value, "value")

    def apply(self, entries: Sequence[HeldEntry]) -> tuple[Sequence[HeldEntry], list[tuple[Sequence[HeldEntry], Outcome]]]:
        """Return the deserialized entries in order, and the outcomes of those that could not be deserialized: a retry if the
        deserializer raised Retry, else a dead letter. Entries behind a retried one in its partition (or key) are in neither."""
        if self.key is None and self.value is None and self.model is None:
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
                outcome = by_policy(entry, outcome_of(error), type(error))
                why = one_line(outcome.why, 500)
                log.warning("%s/%d entry %s cannot be deserialized yet: %s; %s", *place, why, next_step(outcome))
                others.append(([entry], outcome))
                held_up.add(entry.sequence)
            except (Exception, CancelledError) as error:  # CancelledError: of an event loop that the deserializer runs
                others.append(([entry], DeadLetter(bounded(f"it could not be deserialized: {described(error)}"))))
        return readable, others

    def _applied(self, entry: HeldEntry) -> HeldEntry:
        key = entry.key if self.key is None or entry.key is None else self.key(entry.key)
        value = entry.value if self.value is None or entry.value is None else self.value(entry.value)
        read = copy(entry)
        read.key, read.value = key, value if self.model is None else self.model(value)
        return read


MOST_WORKERS = 10_000
"""The default of the queue's maxDeliveredUnacked: more workers could not get entries."""


Order = Literal["partition", "key"]


class HandlerOptions(TypedDict, total=False):
    """The arguments of `Consumer.run` and `Consumer.serve`; see there."""

    concurrency: int
    order: Order
    max_entries: int | None
    max_bytes: float
    max_wait: float
    manual_ack: bool
    dead_letter_on: tuple[type[Exception], ...]
    handler_warn_seconds: float
    handler_timeout: float | None
    retry: Backoff | Policies | None


@dataclass(slots=True)
class CheckedOptions:
    """HandlerOptions after their check, with the deserializers and metrics that workers use."""

    concurrency: int = 1
    order: Order = "partition"
    max_entries: int | None = None
    max_bytes: float = inf
    max_wait: float = 0.2
    manual_ack: bool = False
    dead_letter_on: tuple[type[Exception], ...] = ()
    handler_warn_seconds: float = 60.0
    handler_timeout: float | None = None
    retry: Backoff | Policies | None = None
    deserializers: Deserializers = field(default_factory=Deserializers)
    measures: "ConsumerMetrics | None" = None
    batch: BatchSize | None = field(init=False, default=None)
    """Limits of a batch; None: the handler takes single entries."""
    policies: Policies = field(init=False)

    def __post_init__(self) -> None:
        """Raises ValueError or TypeError for an invalid option."""
        whole("concurrency", self.concurrency, 1, MOST_WORKERS)
        if self.order not in ("partition", "key"):
            raise ValueError(f"order is {self.order!r}: set it to 'partition' or 'key'")
        if self.max_entries is not None:
            self.batch = BatchSize(self.max_entries, self.max_bytes, self.max_wait)
        elif (self.max_bytes, self.max_wait) != (inf, 0.2):
            raise ValueError("max_bytes and max_wait apply to batches only: set max_entries too, and the handler gets a Batch")
        if not isinstance(self.manual_ack, bool):
            raise TypeError(f"manual_ack is {self.manual_ack!r}: set it to True or False")
        fatal = self.dead_letter_on
        for one in fatal if isinstance(fatal, tuple) else (fatal,):
            if not isinstance(one, type) or not issubclass(one, BaseException):
                raise TypeError(f"dead_letter_on is {fatal!r}: set it to a tuple of exceptions, such as (ValueError,)")
            if not issubclass(one, Exception):
                raise TypeError(
                    f"dead_letter_on has {one.__name__}, which ends the program or a task and is not a failure of an entry: "
                    "set it to subclasses of Exception, such as (ValueError,)"
                )
        number("handler_warn_seconds", self.handler_warn_seconds, 0.001)
        if self.handler_timeout is not None:
            number("handler_timeout", self.handler_timeout, 0.001)
        self.policies = policies(self.retry)
