"""The effects that are due at one queue, and their results. Data only. A change costs as much as changed, not as much as there
is."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from baton.engine.effects import Effect, Grant, Pause
from baton.engine.observation import Outcome, OwnerRecord
from baton.model.ids import Epoch, Partition
from baton.queues.protocol import Owner

T = TypeVar("T")
NOTHING: Mapping[Partition, Effect] = {}


class QueueWork:
    """The work at one queue. A worker takes one effect at a time with `take`, and reports it with `granted`, `paused` or
    `handed_over`."""

    def __init__(self) -> None:
        self._wanted = NOTHING
        self._line: deque[Partition] = deque()
        """The partitions that are due, in order. Some stand twice, and some are not due any more."""
        self._due: set[Partition] = set()
        self._draining: dict[Partition, Pause] = {}
        """The pauses that had something outstanding at the last question."""
        self._next_owners: dict[Partition, set[Owner]] = {}
        """Of the pauses that are wanted (`next_owners`)."""
        self._outcomes: dict[Partition, Outcome] = {}
        self._last_told: dict[Partition, Epoch] = {}
        """The epochs of the last outcomes, of partitions that are wanted."""
        self._drained: dict[Partition, Epoch] = {}
        self.unacknowledged: dict[Partition, int | None] = {}
        """The outstanding messages of each paused partition; None: the queue does not know."""
        self.held = False
        """Nothing is due: the effects are of an earlier incarnation of the queue."""

    # -- what the engine wants

    def want(self, wanted: Mapping[Partition, Effect], told: Collection[Outcome] = ()) -> bool:
        """Replace the wanted effects. Returns False if nothing more is due than before.

        `told`: outcomes that the ledger already has. An effect that is still wanted for the partition of one is due again. An
        outcome that the ledger does not have stays, and what is wanted of its partition waits until it does: the queue may have
        accepted a grant just before the ledger had another receiver for it.
        """
        before, self._wanted = self._wanted, wanted
        heard = {one.partition for one in told if self._outcomes.get(one.partition) == one}
        changed = [partition for partition in before if partition not in wanted] if before else []
        changed += [one for one, effect in wanted.items() if one in heard or before.get(one) != effect]
        _drop(self._outcomes, heard)
        _drop(self._next_owners, heard)
        for one in changed:
            self._add_next_owner(one, wanted.get(one))
        _drop(self._drained, changed)
        _drop(self._draining, changed)
        _drop(self._last_told, (one for one in changed if one not in wanted))
        _drop(self.unacknowledged, (one for one in changed if not isinstance(wanted.get(one), Pause)))
        self._due.difference_update(one for one in changed if one not in wanted)
        return self._add(one for one in changed if one in wanted and one not in self._outcomes)

    # -- carrying it out

    @property
    def due(self) -> int:
        """The number of effects that are due."""
        return 0 if self.held else len(self._due)

    @property
    def next_owners(self) -> Mapping[int, Collection[Owner]]:
        """Who is to have the partitions that are paused, or was to have them before that was another, by their numbers: their
        owners may have heard of that one alone."""
        return {partition.number: owners for partition, owners in self._next_owners.items()}

    @property
    def draining(self) -> Collection[Pause]:
        """The pauses that the worker asks the queue about from time to time."""
        return self._draining.values()

    @property
    def answered(self) -> bool:
        """The queue has answered to every effect that is wanted; what is outstanding under a pause is waited for."""
        return all(one in self._outcomes or one in self._drained or self.unacknowledged.get(one, 0) != 0 for one in self._wanted)

    def take(self) -> Effect | None:
        """The next effect; None: nothing is due."""
        while self._line and not self.held:
            partition = self._line.popleft()
            if partition in self._due:
                self._due.remove(partition)
                return self._wanted[partition]
        return None

    def begin_again(self) -> None:
        """Every effect without an answer is due again, because the queue may not have received it."""
        self._draining.clear()
        self._add(one for one in self._wanted if one not in self._outcomes and one not in self._drained)

    def again(self, partition: Partition) -> bool:
        """The same of one. Returns False if nothing is due."""
        self._draining.pop(partition, None)
        answered = partition in self._outcomes or partition in self._drained
        return partition in self._wanted and not answered and self._add([partition])

    def grants(self, partition: Partition) -> bool:
        """It is to be granted, now or after a pause."""
        wanted = self._wanted.get(partition)
        return isinstance(wanted, Grant) or (isinstance(wanted, Pause) and wanted.then is not None)

    def forget(self) -> None:
        """The queue is somewhere else now: what came of anything where it was says nothing about it."""
        self._outcomes.clear()
        self._drained.clear()
        self._last_told.clear()

    def seen_before(self, grant: Grant, record: OwnerRecord) -> bool:
        """This record was seen at the queue before this grant. True: it is of an earlier grant, whose answer was lost, and the
        engine hears of that first. It does so once: where nothing follows from it, this grant is made."""
        is_news = grant.above is not None and record.uid is not None and grant.above < record.epoch < grant.epoch
        if not is_news or self._last_told.get(grant.partition) == record.epoch:
            return False
        self._accepted(Outcome(grant.partition, record), as_wanted=False)
        return True

    def granted(self, grant: Grant, outcome: Outcome) -> None:
        """Record the outcome of a grant, also of one that is not wanted any more: the queue's owner is another for it."""
        wanted = self._wanted.get(grant.partition)
        self._accepted(outcome, as_wanted=grant in (wanted, wanted.then if isinstance(wanted, Pause) else None))

    def handed_over(self, outcome: Outcome) -> None:
        """The same where the owner that was paused has made another the owner itself: that which was next when it was told."""
        wanted = self._wanted.get(outcome.partition)
        then = wanted.then if isinstance(wanted, Pause) else None
        self._draining.pop(outcome.partition, None)
        self._accepted(outcome, as_wanted=then is not None and outcome.record == (then.uid, then.epoch))

    def _accepted(self, outcome: Outcome, *, as_wanted: bool) -> None:
        partition, wanted = outcome.partition, self._wanted.get(outcome.partition)
        if partition in self._outcomes and self._outcomes[partition].record.epoch > outcome.record.epoch:
            return  # a later grant was faster
        self._outcomes[partition] = outcome
        self._last_told[partition] = outcome.record.epoch
        if not as_wanted:
            self._due.discard(partition)
        elif isinstance(wanted, Pause):
            self.unacknowledged[partition] = 0
            self._drained[partition] = wanted.epoch

    def paused(self, pause: Pause, left: int | None) -> bool:
        """Record how much is outstanding under a pause. Returns True for the first answer, and when nothing is outstanding."""
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

    def let_go(self, pause: Pause) -> bool:
        """Nothing is outstanding, and what comes `then` is done now. Returns False if the pause is not wanted any more."""
        if self._wanted.get(pause.partition) != pause:
            return False
        self._draining.pop(pause.partition, None)
        self.unacknowledged[pause.partition] = 0
        return True

    def _add_next_owner(self, partition: Partition, effect: Effect | None) -> None:
        if not isinstance(effect, Pause):
            self._next_owners.pop(partition, None)
        elif effect.then is not None:
            self._next_owners.setdefault(partition, set()).add(Owner(effect.then.uid, effect.then.epoch))

    def _add(self, partitions: Iterable[Partition]) -> bool:
        """Make partitions due. Returns False if all of them were due already."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self._due]
        self._due.update(new)
        self._line.extend(new)
        return bool(new)

    # -- what came of it

    @property
    def outcomes(self) -> Iterable[Outcome]:
        """The outcomes of grants, and of hand-overs by owners, that the engine has not taken in yet."""
        return self._outcomes.values()

    @property
    def drained(self) -> Iterable[tuple[Partition, Epoch]]:
        """The paused partitions with nothing outstanding, and their epochs."""
        return self._drained.items()


def _drop(made: dict[Partition, T], partitions: Iterable[Partition]) -> None:
    if made:
        for partition in partitions:
            made.pop(partition, None)
