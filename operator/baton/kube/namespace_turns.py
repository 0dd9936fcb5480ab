"""Requests take turns: by priority, and within a priority one namespace after the other.

An admission webhook that never answers makes the writes of one namespace hang. So a request that takes long stops counting
towards the limit. From then on, requests of its namespace and priority share a small limit of their own with those of other slow
namespaces, until one is answered in time. Other namespaces do not wait for them.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import IntEnum

FEWEST = 2
"""Requests of a namespace and order that may be under way even if all of them are slow."""

MOST_IDLE = 1_000
"""Lines to keep without requests because their requests were slow."""


class Order(IntEnum):
    """Priority of a request, first to last."""

    READ = 0
    LEDGER = 1
    """The ledger, and all other writes that are not listed below."""
    STATUS = 2
    ANNOTATION = 3
    """Annotations of pods."""
    EVENT = 4


@dataclass(slots=True)
class _Line:
    """The requests of one namespace and order."""

    namespace: str
    order: Order
    allowed: int
    """How many may be under way, late ones included. Halved after each slow request, one more after each answer in time."""
    troubled: bool = False
    """A request of the namespace was slow, and none of this line has been answered in time since."""
    under_way: int = 0
    waiting: "deque[asyncio.Future[_Call]]" = field(default_factory=deque)


@dataclass(slots=True)
class _Call:
    """A request that has got its turn."""

    line: _Line
    among_troubled: bool
    late: bool = False


class NamespaceTurns:
    """The requests of one client, under way or waiting for their turn. They may wait without limit."""

    def __init__(self, most: int, late: float) -> None:
        """`most`: limit of requests under way, and a second limit for those of slow namespaces. `late`: seconds after which a
        request counts as slow."""
        self.may_begin: Callable[[], bool] = lambda: True
        """Whether any request may begin; call `go_on` when this becomes true."""
        self._free = self._free_for_troubled = most
        self._each = most // 2
        self._late = late
        self._held: Counter[str] = Counter()
        """Requests of each namespace that count towards `most`. A namespace may have at most as many as it leaves free."""
        self._lines: dict[tuple[Order, str], _Line] = {}
        self._most_lines = MOST_IDLE
        self._waiting: dict[Order, OrderedDict[str, _Line]] = {order: OrderedDict() for order in Order}
        """Lines with waiting requests, next first."""

    @asynccontextmanager
    async def take(self, namespace: str, order: Order = Order.LEDGER) -> AsyncIterator[None]:
        """Wait for a turn of this namespace ("": none), and hold it."""
        call = await self._turn(self._line(namespace, order))
        timer = asyncio.get_running_loop().call_later(self._late, self._is_late, call)
        try:
            yield
        finally:
            timer.cancel()
            self._end(call)

    def go_on(self) -> None:
        """Begin all requests that may begin now."""
        while self.may_begin() and (line := self._first()) is not None:
            turn = line.waiting.popleft()
            if line.waiting:
                self._waiting[line.order].move_to_end(line.namespace)
            else:
                del self._waiting[line.order][line.namespace]
            if not turn.cancelled():
                turn.set_result(call := _Call(line, line.troubled))
                line.under_way += 1
                self._count(call, 1)

    def _line(self, namespace: str, order: Order) -> _Line:
        if len(self._lines) > self._most_lines:
            self._lines = {key: line for key, line in self._lines.items() if line.under_way or line.waiting}
            self._most_lines = len(self._lines) + MOST_IDLE
        return self._lines.setdefault((order, namespace), _Line(namespace, order, self._each))

    async def _turn(self, line: _Line) -> _Call:
        turn: asyncio.Future[_Call] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        self._waiting[line.order].setdefault(line.namespace, line)
        self.go_on()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn in line.waiting:
                line.waiting.remove(turn)
                if not line.waiting:
                    del self._waiting[line.order][line.namespace]
            if not turn.cancelled():
                self._end(turn.result())
            raise

    def _first(self) -> _Line | None:
        for lines in self._waiting.values():
            for line in lines.values():
                room = self._free_for_troubled > 0 if line.troubled else self._held[line.namespace] < self._free
                if room and line.under_way < line.allowed:
                    return line
        return None

    def _is_late(self, call: _Call) -> None:
        call.line.allowed = max(FEWEST, call.line.allowed // 2)
        for order in Order:
            self._line(call.line.namespace, order).troubled = True
        if not call.among_troubled:
            self._count(call, -1)
        call.late = True
        self.go_on()

    def _end(self, call: _Call) -> None:
        line = call.line
        line.under_way -= 1
        if not call.late:
            line.troubled, line.allowed = False, min(self._each, line.allowed + 1)
        if call.among_troubled or not call.late:
            self._count(call, -1)
        key, idle = (line.order, line.namespace), not line.under_way and not line.waiting
        if idle and not line.troubled and line.allowed == self._each and self._lines.get(key) is line:
            del self._lines[key]
        self.go_on()

    def _count(self, call: _Call, more: int) -> None:
        if call.among_troubled:
            self._free_for_troubled -= more
            return
        self._free -= more
        self._held[call.line.namespace] += more
        if not self._held[call.line.namespace]:
            del self._held[call.line.namespace]
