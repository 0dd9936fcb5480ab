"""The program's callbacks for partitions that are assigned, revoked or lost."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from baton.consumer.handler import in_event_loop
from baton.consumer.partition import HeldPartition, Notice, Phase
from baton.model.ids import Partition
from baton.model.options import function

log = logging.getLogger(__name__)

Partitions = Sequence[Partition]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Functions or coroutine functions, called one at a time where the handler runs, between two entries or batches."""

    on_assigned: Callable[[Partitions], object] | None = None
    """Called before the first entry of these partitions."""
    on_revoked: Callable[[Partitions, float | None], object] | None = None
    """Called after their last entry, while entries may still be acknowledged, with the seconds left for that, if known."""
    on_lost: Callable[[Partitions], object] | None = None
    """Called if another pod owns them before `on_revoked` began. Entries that were not acknowledged go to their next owner."""

    def __post_init__(self) -> None:
        """Raises TypeError for a callback that cannot be called with its arguments."""
        function("on_assigned", self.on_assigned, "partitions")
        function("on_revoked", self.on_revoked, "partitions", "time_left")
        function("on_lost", self.on_lost, "partitions")


@dataclass(slots=True, eq=False)
class Call:
    """A callback for a worker to call."""

    function: Callable[..., object]
    holdings: Sequence[HeldPartition]
    time_left: Callable[[], float | None] | None = None
    """Only for `on_revoked`: the second argument."""

    def is_due(self) -> bool:
        """Return whether to call it still. Partitions lost before `on_revoked` began are left out of it."""
        if self.time_left is not None:
            self.holdings = [holding for holding in self.holdings if not holding.over]
        return bool(self.holdings)

    def begun(self, *, really: bool = True) -> None:
        """Record that `on_revoked` has begun, after which `on_lost` is not called. `really` False: it was not called after
        all."""
        for holding in self.holdings:
            if holding.notice in (Notice.REVOKING, Notice.IN_ON_REVOKED):
                holding.notice = Notice.IN_ON_REVOKED if really else Notice.REVOKING

    def ready(self) -> Callable[[], object]:
        """Return the callback with its arguments. If the callback returns an awaitable, the caller waits for that. This may ask
        the queue for the time left: do not call it in an event loop."""
        partitions = sorted(holding.partition for holding in self.holdings)
        return partial(self.function, partitions, *(() if self.time_left is None else (self.time_left(),)))


@dataclass(frozen=True, slots=True)
class Place:
    """The thread or task that runs a callback. Waiting there for entries would never end: none come until the callback
    returns."""

    thread: int
    task: "asyncio.Task[object] | None"

    @classmethod
    def here(cls) -> "Place":
        return cls(threading.get_ident(), asyncio.current_task() if in_event_loop() else None)

    def check_elsewhere(self) -> None:
        """Raises RuntimeError if called from within the callback. A callback that was called outside of event loops may have
        started its own."""
        here = self.here()
        if here.thread == self.thread and self.task in (here.task, None):
            raise RuntimeError(
                "a callback (on_assigned, on_revoked, on_lost) waits for entries of its own consumer, and none come before it "
                "has returned: take them where the consumer runs"
            )


class Notices:
    """Decides which callbacks are due. Used by the thread of the consumer's loop only."""

    def __init__(self, callbacks: Callbacks, time_left: Callable[[HeldPartition], float | None]) -> None:
        self._callbacks = callbacks
        self._time_left = time_left
        self._revoking: list[HeldPartition] = []

    @property
    def revokes(self) -> bool:
        """Whether the program has an `on_revoked`."""
        return self._callbacks.on_revoked is not None

    def assigned(self, new: Sequence[HeldPartition]) -> Call | None:
        """Return the call of `on_assigned` for new partitions, if it is due."""
        function = self._callbacks.on_assigned
        for holding in new:
            holding.notice = Notice.ASSIGNED if function is None else Notice.ASSIGNING
        return Call(function, new) if new and function is not None else None

    def may_go(self, holding: HeldPartition) -> bool:
        """Return whether `on_revoked` has returned for the partition, or is not needed. If not, `revoked` calls it soon."""
        if self._callbacks.on_revoked is None or holding.notice is Notice.NONE:
            return True
        if holding.notice is Notice.ASSIGNED:
            holding.notice = Notice.REVOKING
            self._revoking.append(holding)
        return holding.notice is Notice.REVOKED

    def revoked(self) -> Call | None:
        """Return the call of `on_revoked` for partitions that `may_go` held back."""
        going, self._revoking = [holding for holding in self._revoking if not holding.over], []
        function = self._callbacks.on_revoked
        if not going or function is None:
            return None

        def time_left() -> float | None:
            known = [left for holding in going if (left := self._time_left(holding)) is not None]
            return min(known, default=None)

        return Call(function, going, time_left)

    def lost(self, holdings: Iterable[HeldPartition]) -> Call | None:
        """Return the call of `on_lost` for lost partitions that the program still takes for its own."""
        return self._lost(one for one in holdings if one.phase is Phase.FENCED)

    def _lost(self, holdings: Iterable[HeldPartition]) -> Call | None:
        """Call either `on_revoked` or `on_lost` for a partition, never both: while `on_revoked` runs, only log a warning."""
        gone: list[HeldPartition] = []
        for holding in holdings:
            if holding.notice is Notice.IN_ON_REVOKED:
                log.warning("%s/%d was taken while on_revoked runs: its writes from now on are too late", *holding.partition)
            elif holding.notice not in (Notice.NONE, Notice.REVOKED):
                gone.append(holding)
            holding.notice = Notice.REVOKED
        return Call(self._callbacks.on_lost, gone) if gone and self._callbacks.on_lost is not None else None

    def last(self, calls: Iterable[Call], holdings: Sequence[HeldPartition], at_work: Sequence[HeldPartition]) -> list[Call]:
        """Return the calls of `on_lost` at the end, when all holdings are over: for partitions whose `on_revoked` was not called,
        and for those with running handlers (`at_work`). `calls`: due calls that no worker took; those of other callbacks are
        dropped."""
        left = [call for call in calls if call.function == self._callbacks.on_lost]
        known = self._callbacks.on_revoked is not None
        lost = self._lost(one for one in holdings if one.phase is Phase.FENCED or (known and one.over) or one in at_work)
        return [*left, lost] if lost else left

    def called(self, call: Call) -> None:
        """Record that the callback has returned."""
        for holding in call.holdings:
            match holding.notice:
                case Notice.ASSIGNING:
                    holding.notice = Notice.ASSIGNED
                case Notice.IN_ON_REVOKED:
                    holding.notice = Notice.REVOKED
                case _:
                    pass
