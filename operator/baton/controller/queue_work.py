"""What the engine wants done at one queue, and what came of it. Data only; a change costs what changed, not what there is."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Set
from typing import TypeVar

from baton.engine.effects import Effect, Grant, Pause
from baton.engine.observation import Outcome
from baton.model.ids import Epoch, Partition

T = TypeVar("T")
NOTHING: Mapping[Partition, Effect] = {}


class QueueWork:
    """One queue's. Whoever carries it out takes a partition at a time with `take`, and says what came of it."""

    def __init__(self) -> None:
        self._wanted = NOTHING
        self._line: deque[Partition] = deque()
        """What is due, in order; some of it twice, some not due any more."""
        self._due: set[Partition] = set()
        self._draining: dict[Partition, Pause] = {}
        """Begun, with something outstanding when they were last asked."""
        self._outcomes: dict[Partition, Outcome] = {}
        self._drained: dict[Partition, Epoch] = {}
        self.unacknowledged: dict[Partition, int | None] = {}
        """What is still to be waited for of the partitions that are paused; None: the queue cannot say."""

    # -- what the engine wants

    def want(self, wanted: Mapping[Partition, Effect], told: Set[Partition] = frozenset()) -> bool:
        """All that is wanted now, by partition. `told`: partitions whose outcome the engine has taken into its written state;
        what is wanted of one all the same is to be done once more. False if nothing is due that was not."""
        before, self._wanted = self._wanted, wanted
        changed = [partition for partition in before if partition not in wanted] if before else []
        changed += [one for one, effect in wanted.items() if one in told or before.get(one) != effect]
        _drop(self._outcomes, told)
        _drop(self._outcomes, changed)
        _drop(self._drained, changed)
        _drop(self._draining, changed)
        _drop(self.unacknowledged, (one for one in changed if not isinstance(wanted.get(one), Pause)))
        self._due.difference_update(one for one in changed if one not in wanted)
        return self._add(one for one in changed if one in wanted)

    # -- carrying it out

    @property
    def due(self) -> int:
        """How much there is to do now."""
        return len(self._due)

    @property
    def draining(self) -> Collection[Pause]:
        """Pauses to ask about from time to time."""
        return self._draining.values()

    def take(self) -> Effect | None:
        """What to do next; None: nothing is due."""
        while self._line:
            partition = self._line.popleft()
            if partition in self._due:
                self._due.remove(partition)
                return self._wanted[partition]
        return None

    def begin_again(self) -> None:
        """Of what was asked for and not answered it is not known whether the queue knows it: it is due once more."""
        self._draining.clear()
        self._add(one for one in self._wanted if one not in self._outcomes and one not in self._drained)

    def granted(self, grant: Grant, outcome: Outcome) -> bool:
        """What the queue answered; False if nobody waits for it any more."""
        if self._wanted.get(grant.partition) != grant:
            return False
        self._outcomes[grant.partition] = outcome
        return True

    def paused(self, pause: Pause, left: int | None) -> bool:
        """So much is outstanding; True if that is worth telling at once."""
        partition = pause.partition
        if self._wanted.get(partition) != pause:
            return False
        first = partition not in self.unacknowledged
        self.unacknowledged[partition] = left
        if left:
            self._draining[partition] = pause
        elif left == 0:
            self._draining.pop(partition, None)
            self._drained[partition] = pause.epoch
        return first or left == 0

    def _add(self, partitions: Iterable[Partition]) -> bool:
        """They are due; False if all of them were."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self._due]
        self._due.update(new)
        self._line.extend(new)
        return bool(new)

    # -- what came of it

    @property
    def outcomes(self) -> Iterable[Outcome]:
        """Of grants, until they were told."""
        return self._outcomes.values()

    @property
    def drained(self) -> Iterable[tuple[Partition, Epoch]]:
        """Pauses with nothing outstanding any more, and their epochs."""
        return self._drained.items()


def _drop(made: dict[Partition, T], partitions: Iterable[Partition]) -> None:
    if made:
        for partition in partitions:
            made.pop(partition, None)
