"""What happened to partitions since it was last told, and when it is to be told: in rounds, so that a large rebalance is a few
sentences (`baton.controller.event_messages`) and not an event for each partition. Pure.

A hand-off that begins is told when its queue has said what is still to be waited for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from baton.controller import event_messages
from baton.controller.event_messages import EventMessage, OfPartition
from baton.engine.step_events import DeadlineMissed, Granted, Redirected, Released, Revoked
from baton.model.ids import Partition

MOST_SENTENCES = 10
"""Of one kind in one round."""

BURST = 40
"""Sentences about partitions that may be told before they become fewer and rarer."""

REFILL = 0.2
"""Sentences a second in the long run; client-go filters a component's events of one object in the same way."""

ROUND, SLOW_ROUND = 1.0, 10.0
"""Seconds between two rounds: usually, and when the burst is used up."""

PATIENCE = 1.0
"""Seconds for which a hand-off waits to be told until its queue has answered."""

H = TypeVar("H", bound=OfPartition)


class EventRounds:
    """What happened to the partitions of one group and is not recorded yet."""

    def __init__(self) -> None:
        self.due_at: float | None = None
        """When there is something to tell, if nothing else happens; call `turn` then."""
        self._untold: list[tuple[float, OfPartition | EventMessage]] = []
        """In the order in which it happened, and when. What is said of the group itself keeps its place in it."""
        self._unanswered: set[Partition] = set()
        """Hand-offs of these whose queues have not answered."""
        self._answers: dict[Partition, int | None] = {}
        """What queues said of hand-offs that are not yet told."""
        self._round_at = float("-inf")
        self._tokens = float(BURST)

    @property
    def untold(self) -> int:
        """How much waits to be told."""
        return len(self._untold)

    def turn(
        self, happened: Iterable[OfPartition], unacknowledged: Mapping[Partition, int | None], now: float
    ) -> list[EventMessage]:
        """What is to be told now. `unacknowledged`: what the queues say is still to be acknowledged of partitions that are being
        handed off (None: they cannot say)."""
        for one in happened:
            self._untold.append((now, one))
            if isinstance(one, Revoked):
                self._unanswered.add(one.partition)
        answered = [partition for partition in self._unanswered if partition in unacknowledged]
        for partition in answered:
            self._answers.setdefault(partition, unacknowledged[partition])
        self._unanswered.difference_update(answered)
        if not self._untold:
            self.due_at = None
            return []
        ripe = self._ripe()
        self.due_at = max(self._next_round(), min(ripe))
        if now < self.due_at:
            return []
        self._tokens = min(BURST, self._tokens + (now - self._round_at) * REFILL)
        self._round_at = now
        told = self._told(list(self._take(ripe, now)))
        self.due_at = max(self._next_round(), min(self._ripe())) if self._untold else None
        return told

    def behind(self, message: EventMessage) -> None:
        """Tell this of the group when all that happened before it has been told."""
        self._untold.append((self._untold[-1][0], message))

    def _take(self, ripe: Iterable[float], now: float) -> Iterator[OfPartition | EventMessage]:
        """What can be told now. What is said of the group is not told before what happened earlier, nor is
        what happened later told before that."""
        waits, left = False, list[tuple[float, OfPartition | EventMessage]]()
        for entry, at in zip(self._untold, ripe, strict=True):
            of_group = isinstance(entry[1], EventMessage)
            if at > now or (left and (of_group or waits)):
                left.append(entry)
                waits |= of_group
            else:
                yield entry[1]
        self._untold = left

    def rest(self) -> list[EventMessage]:
        """The messages about everything that is left."""
        those, self._untold, self.due_at = [one for _, one in self._untold], [], None
        return self._told(those)

    def _told(self, those: Sequence[OfPartition | EventMessage]) -> list[EventMessage]:
        told: list[EventMessage] = []
        some: list[OfPartition] = []
        for one in those:
            if isinstance(one, EventMessage):
                told += [*self._of_partitions(some), one]
                some = []
            else:
                some.append(one)
        return told + self._of_partitions(some)

    def _of_partitions(self, those: list[OfPartition]) -> list[EventMessage]:
        most = MOST_SENTENCES if self._tokens >= MOST_SENTENCES else 1
        told = event_messages.revoked(_of(those, Revoked), self._answers, most)
        told += event_messages.redirected(_of(those, Redirected), most)
        told += event_messages.released([one for one in those if isinstance(one, Released | DeadlineMissed)], most)
        told += event_messages.granted(_of(those, Granted), most)
        self._tokens = max(0.0, self._tokens - len(told))
        for partition in {one.partition for one in those}:
            self._answers.pop(partition, None)
            self._unanswered.discard(partition)
        return told

    def _next_round(self) -> float:
        return self._round_at + (ROUND if self._tokens >= MOST_SENTENCES else SLOW_ROUND)

    def _ripe(self) -> list[float]:
        """From when each can be told. Where more has happened to a partition there is no answer to wait for any more."""
        happened = Counter(one.partition for _, one in self._untold if not isinstance(one, EventMessage))
        return [
            at + PATIENCE
            if isinstance(one, Revoked) and one.partition not in self._answers and happened[one.partition] == 1
            else at
            for at, one in self._untold
        ]


def _of(those: Iterable[OfPartition], kind: type[H]) -> list[H]:
    return [one for one in those if isinstance(one, kind)]
