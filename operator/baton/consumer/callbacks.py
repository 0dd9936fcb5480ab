"""What a program is told of its partitions: that they came, that they are called back, that they are lost."""

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
    """Functions or coroutine functions, called where the handler is called, between two entries or batches and never beside one
    another."""

    on_assigned: Callable[[Partitions], object] | None = None
    """Before the first entry of these partitions."""
    on_revoked: Callable[[Partitions, float | None], object] | None = None
    """After their last entry, while what is not acknowledged may still be; with the seconds left for that, if they are known."""
    on_lost: Callable[[Partitions], object] | None = None
    """They are another pod's already, and `on_revoked` had not begun; what was not acknowledged comes to their next owner."""

    def __post_init__(self) -> None:
        """Raises TypeError for what cannot be called with what it gets."""
        function("on_assigned", self.on_assigned, "partitions")
        function("on_revoked", self.on_revoked, "partitions", "time_left")
        function("on_lost", self.on_lost, "partitions")


@dataclass(slots=True, eq=False)
class Call:
    """A callback for some worker to call."""

    function: Callable[..., object]
    holdings: Sequence[HeldPartition]
    time_left: Callable[[], float | None] | None = None
    """For `on_revoked`."""

    def is_due(self) -> bool:
        """Whether it still is to be called: `on_revoked` for none that was lost before it began."""
        if self.time_left is not None:
            self.holdings = [holding for holding in self.holdings if not holding.over]
        return bool(self.holdings)

    def begun(self, *, really: bool = True) -> None:
        """`on_revoked` has begun: from now on no `on_lost` follows. `really` False: it did not come to that."""
        for holding in self.holdings:
            if holding.notice in (Notice.REVOKING, Notice.IN_ON_REVOKED):
                holding.notice = Notice.IN_ON_REVOKED if really else Notice.REVOKING

    def ready(self) -> Callable[[], object]:
        """To be called; if what it returns is awaitable, that still has to run. The queue may be asked for the time left: not for
        an event loop to wait for."""
        partitions = sorted(holding.partition for holding in self.holdings)
        return partial(self.function, partitions, *(() if self.time_left is None else (self.time_left(),)))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a callback runs: waiting there for entries would never end, because none come before it has returned."""

    thread: int
    task: "asyncio.Task[object] | None"

    @classmethod
    def here(cls) -> "Place":
        return cls(threading.get_ident(), asyncio.current_task() if in_event_loop() else None)

    def see_elsewhere(self) -> None:
        """Raises RuntimeError within it. A callback that was called outside of event loops may run in one of its own."""
        here = self.here()
        if here.thread == self.thread and self.task in (here.task, None):
            raise RuntimeError(
                "a callback (on_assigned, on_revoked, on_lost) waits for entries of its own consumer, and none come before it "
                "has returned: take them where the consumer runs"
            )


class Notices:
    """Which callbacks are due. Of the consumer's loop."""

    def __init__(self, callbacks: Callbacks, time_left: Callable[[HeldPartition], float | None]) -> None:
        self._callbacks = callbacks
        self._time_left = time_left
        self._farewells: list[HeldPartition] = []

    @property
    def revokes(self) -> bool:
        """The program is told when partitions are called back."""
        return self._callbacks.on_revoked is not None

    def assigned(self, new: Sequence[HeldPartition]) -> Call | None:
        """For those that are new."""
        function = self._callbacks.on_assigned
        for holding in new:
            holding.notice = Notice.ASSIGNED if function is None else Notice.ASSIGNING
        return Call(function, new) if new and function is not None else None

    def may_go(self, holding: HeldPartition) -> bool:
        """Whether the program knows that it is called back; if not, it is told soon."""
        if self._callbacks.on_revoked is None or holding.notice is Notice.NONE:
            return True
        if holding.notice is Notice.ASSIGNED:
            holding.notice = Notice.REVOKING
            self._farewells.append(holding)
        return holding.notice is Notice.REVOKED

    def revoked(self) -> Call | None:
        """For those that `may_go` was asked about."""
        going, self._farewells = [holding for holding in self._farewells if not holding.over], []
        function = self._callbacks.on_revoked
        if not going or function is None:
            return None

        def time_left() -> float | None:
            known = [left for holding in going if (left := self._time_left(holding)) is not None]
            return min(known, default=None)

        return Call(function, going, time_left)

    def lost(self, holdings: Iterable[HeldPartition]) -> Call | None:
        """For those of which the program believes that they are its own."""
        return self._lost(one for one in holdings if one.phase is Phase.FENCED)

    def _lost(self, holdings: Iterable[HeldPartition]) -> Call | None:
        """A partition has `on_revoked` or `on_lost`, never both: one whose `on_revoked` runs is only warned of."""
        gone: list[HeldPartition] = []
        for holding in holdings:
            if holding.notice is Notice.IN_ON_REVOKED:
                log.warning("%s/%d was taken while on_revoked runs: what that still writes is too late", *holding.partition)
            elif holding.notice not in (Notice.NONE, Notice.REVOKED):
                gone.append(holding)
            holding.notice = Notice.REVOKED
        return Call(self._callbacks.on_lost, gone) if gone and self._callbacks.on_lost is not None else None

    def last(self, calls: Iterable[Call], holdings: Sequence[HeldPartition], at_work: Sequence[HeldPartition]) -> list[Call]:
        """At the end, when all holdings are over: `on_lost` for those of which the program does not know that they go, and those
        that it still was `at_work` on. `calls`: that were not called; it is too late for any other."""
        left = [call for call in calls if call.function == self._callbacks.on_lost]
        known = self._callbacks.on_revoked is not None
        lost = self._lost(one for one in holdings if one.phase is Phase.FENCED or (known and one.over) or one in at_work)
        return [*left, lost] if lost else left

    def called(self, call: Call) -> None:
        """The callback has returned."""
        for holding in call.holdings:
            match holding.notice:
                case Notice.ASSIGNING:
                    holding.notice = Notice.ASSIGNED
                case Notice.IN_ON_REVOKED:
                    holding.notice = Notice.REVOKED
                case _:
                    pass
