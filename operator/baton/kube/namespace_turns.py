"""Namespaces take turns with their requests, and one whose requests get no answer delays no other namespace.

An admission webhook that never answers makes the writes of one namespace hang. A call that has been under way for long no longer
counts among the calls that are answered. From then on the calls of its namespace wait for each other, and for those of other
namespaces where calls hang. A kind of call waits until one of it is answered in time. Then one more of them may be under way for
each answer, up to what any namespace may have (as TCP begins slowly).
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

Kind = tuple[str, str]
"""A namespace ("": none), and which of its requests: they hang or are answered together."""

PATIENCE = 15.0
"""Seconds for which a call waits for its turn where those of its kind are not answered; then it fails unsent."""

OVERSHOOT = 8
"""Times as many as may begin: calls that were found to take long while others did already. Beyond that they are ended."""

MOST_KNOWN = 10_000
"""Namespaces that are remembered to have had calls that took long."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Calls that may be under way at once."""

    answered: int
    """Of kinds that are answered in time."""
    unanswered: int
    """Of all others."""
    each: int
    """Of one namespace, of those that are answered."""
    each_unanswered: int
    """And of the others."""
    long: float
    """Seconds after which a call takes long."""


class NamespaceTurns:
    """The calls of one client: those under way, and those that wait for their turn."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._answered = _Pool(bounds.answered, bounds.each, self._allowed)
        self._unanswered = _Pool(bounds.unanswered, bounds.each_unanswered, lambda kind: bounds.each_unanswered)
        self._slow: OrderedDict[str, dict[str, int]] = OrderedDict()
        """Of namespaces where calls took long: how many of a kind may be under way among those that are answered; else none."""

    @asynccontextmanager
    async def take(self, namespace: str, what: str) -> AsyncIterator[None]:
        """A turn. Raises TimeoutError where there is none, and may within it where too many calls take long."""
        kind = (namespace, what)
        call = _Call(kind, await self._turn(kind))
        late: asyncio.TimerHandle | None = None
        try:
            async with asyncio.timeout(None) as limit:
                late = asyncio.get_running_loop().call_later(self._bounds.long, self._late, call, limit)
                yield
        except asyncio.CancelledError:
            call.in_time = False
            raise
        finally:
            if late is not None:
                late.cancel()
            self._ended(call)

    async def _turn(self, kind: Kind) -> "_Pool":
        pool = self._answered if self._allowed(kind) else self._unanswered
        if pool.begin(kind):
            return pool
        turn: Waiter = asyncio.get_running_loop().create_future()
        pool.wait(kind, turn)
        try:
            while not turn.done():
                await asyncio.wait({turn}, timeout=PATIENCE)
                if not turn.done() and self._unanswered.forget(kind, turn):
                    raise TimeoutError(f"not sent within {PATIENCE:.0f} s, for such requests of its namespace are not answered")
        except asyncio.CancelledError:
            if turn.done():
                turn.result().end(kind)
                self._go_on()
            elif not self._answered.forget(kind, turn):
                self._unanswered.forget(kind, turn)
            raise
        return turn.result()

    def _allowed(self, kind: Kind) -> int:
        namespace, what = kind
        return self._bounds.each if namespace not in self._slow else self._slow[namespace].get(what, 0)

    def _late(self, call: "_Call", limit: asyncio.Timeout) -> None:
        """The call takes long."""
        call.in_time = False
        namespace, what = call.kind
        self._slow.setdefault(namespace, {})[what] = 0
        self._slow.move_to_end(namespace)
        if len(self._slow) > MOST_KNOWN:
            self._slow.popitem(last=False)
        for kind in self._answered.kinds(namespace):
            if not self._allowed(kind):
                self._answered.hand_over(kind, self._unanswered)
        if call.pool is self._answered:
            self._answered.end(call.kind)
            call.pool = self._unanswered
            self._unanswered.add(call.kind)
            if self._unanswered.busy > OVERSHOOT * self._bounds.unanswered:
                limit.reschedule(asyncio.get_running_loop().time())
        self._go_on()

    def _ended(self, call: "_Call") -> None:
        call.pool.end(call.kind)
        namespace, what = call.kind
        if call.in_time and (allowed := self._slow.get(namespace)) is not None:
            allowed[what] = min(self._bounds.each, allowed.get(what, 0) + 1)
            if min(allowed.values()) >= self._bounds.each:
                del self._slow[namespace]
                for kind in self._unanswered.kinds(namespace):
                    self._unanswered.hand_over(kind, self._answered)
            self._unanswered.hand_over(call.kind, self._answered)
        self._go_on()

    def _go_on(self) -> None:
        self._answered.go_on()
        self._unanswered.go_on()


@dataclass(slots=True)
class _Call:
    kind: Kind
    pool: "_Pool"
    in_time: bool = True


class _Pool:
    """So many calls are under way at once. Namespaces take turns, and in each of them the kinds of its calls."""

    def __init__(self, most: int, each: int, of_kind: Callable[[Kind], int]) -> None:
        self.busy = 0
        self._most = most
        self._each = each
        self._of_kind = of_kind
        self._namespaces: Counter[str] = Counter()
        self._kinds: Counter[Kind] = Counter()
        self._waiting: OrderedDict[str, OrderedDict[Kind, dict[Waiter, None]]] = OrderedDict()

    def begin(self, kind: Kind) -> bool:
        """Unless it has to wait."""
        if self._turns_of(kind) or not self._has_room(kind):
            return False
        self.add(kind)
        return True

    def add(self, kind: Kind) -> None:
        """One more is under way, in its turn or not."""
        self.busy += 1
        self._namespaces[kind[0]] += 1
        self._kinds[kind] += 1

    def end(self, kind: Kind) -> None:
        """One is under way no more."""
        self.busy -= 1
        _less(self._namespaces, kind[0])
        _less(self._kinds, kind)

    def wait(self, kind: Kind, *turns: "Waiter") -> None:
        """Behind those of its kind."""
        waiting = self._waiting.setdefault(kind[0], OrderedDict()).setdefault(kind, {})
        waiting.update(dict.fromkeys(turns))

    def forget(self, kind: Kind, turn: "Waiter") -> bool:
        """It waits no more; False: it did not."""
        waiting = self._turns_of(kind)
        if turn not in waiting:
            return False
        del waiting[turn]
        self._tidy(kind)
        return True

    def kinds(self, namespace: str) -> list[Kind]:
        """That wait."""
        return list(self._waiting.get(namespace, ()))

    def hand_over(self, kind: Kind, other: "_Pool") -> None:
        """What waits of this kind waits there."""
        if turns := self._turns_of(kind):
            other.wait(kind, *turns)
            turns.clear()
            self._tidy(kind)

    def go_on(self) -> None:
        """Whoever may begin now does."""
        while self.busy < self._most and (kind := self._next()) is not None:
            kinds = self._waiting[kind[0]]
            turn = next(iter(kinds[kind]))
            self.add(kind)
            turn.set_result(self)
            kinds.move_to_end(kind)
            self._waiting.move_to_end(kind[0])
            self.forget(kind, turn)

    def _next(self) -> Kind | None:
        for namespace, kinds in self._waiting.items():
            if self._namespaces[namespace] < self._each:
                for kind in kinds:
                    if self._has_room(kind):
                        return kind
        return None

    def _has_room(self, kind: Kind) -> bool:
        room = self.busy < self._most and self._namespaces[kind[0]] < self._each
        return room and self._kinds[kind] < self._of_kind(kind)

    def _turns_of(self, kind: Kind) -> dict["Waiter", None]:
        kinds = self._waiting.get(kind[0])
        return {} if kinds is None else kinds.get(kind, {})

    def _tidy(self, kind: Kind) -> None:
        kinds = self._waiting[kind[0]]
        if not kinds[kind]:
            del kinds[kind]
        if not kinds:
            del self._waiting[kind[0]]


Waiter = asyncio.Future[_Pool]

K = TypeVar("K")


def _less(counted: Counter[K], key: K) -> None:
    counted[key] -= 1
    if not counted[key]:
        del counted[key]
