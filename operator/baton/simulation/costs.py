"""What a scenario cost: moves, pauses, time without an owner; and, from the consumers' side, whether two were ever let in."""

from collections import Counter
from itertools import chain

from baton.engine.results import DeadlineMissed, Granted, Released, Revoked, StepEvent
from baton.model.ids import Epoch, Partition, Uid
from baton.simulation.simulated_cluster import SimulatedCluster


class ScenarioCosts:
    """Counted from the timeline and from the consumers, never by the engine."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._now = 0.0
        self._unowned: set[Partition] = set()
        self._fresh: set[Partition] = set()
        """Of those, the ones that were never granted to anybody."""
        self._known: frozenset[Partition] = frozenset()
        self._paused: dict[Partition, float] = {}
        self._last: dict[Partition, str] = {}
        self._dual: set[Partition] = set()
        self._highest: dict[Partition, tuple[Epoch, Uid]] = {}
        self.moves = 0
        self.pause_seconds = 0.0
        self.unowned_seconds = 0.0
        self.unowned_at_first = 0.0
        """The part of it before the first grants."""
        self.most_paused = 0
        self.dual_ownership = 0
        self.epoch_regressions = 0

    def pass_time(self, now: float) -> None:
        """Nothing changed from the last instant to this one."""
        if self._unowned:
            readers = self._cluster.readers()
            waiting = [partition for partition in self._unowned if partition.queue in readers]
            self.unowned_seconds += (now - self._now) * len(waiting)
            self.unowned_at_first += (now - self._now) * sum(partition in self._fresh for partition in waiting)
        self._now = now

    def queues_changed(self) -> None:
        """Partitions came (without an owner yet) or went."""
        there = self._cluster.partitions
        if there is self._known:
            return
        self._unowned |= there - self._known
        self._fresh |= there - self._known
        self._unowned &= there
        self._known = there

    def happened(self, events: list[StepEvent]) -> None:
        for event in events:
            match event:
                case Revoked(partition=partition):
                    self._paused.setdefault(partition, self._now)
                    self.most_paused = max(self.most_paused, len(self._paused))
                case Released(partition=partition) | DeadlineMissed(partition=partition, taken=True):
                    if partition in self._known:
                        self._unowned.add(partition)
                    else:
                        self._paused.pop(partition, None)
                case Granted(partition=partition):
                    self._unowned.discard(partition)
                    self._fresh.discard(partition)
                    self.moves += event.previous not in (None, event.member)
                    if (since := self._paused.pop(partition, None)) is not None:
                        self.pause_seconds += self._now - since

    def told(self, uid: Uid, new: dict[Partition, Epoch]) -> None:
        """A consumer learnt of grants. An epoch that another pod had before, or a lower one, must not come again."""
        for partition, epoch in new.items():
            highest, holder = self._highest.get(partition, (0, None))
            if epoch < highest or (epoch == highest and uid != holder):
                self.epoch_regressions += 1
            else:
                self._highest[partition] = (epoch, uid)

    def try_everybody(self) -> None:
        """Every consumer acts on all it believes to own. Counts each time that a partition comes to let two of them in."""
        held = [consumer.holds for consumer in self._cluster.fleet.values()]
        dual: set[Partition] = set()
        if len(set().union(*held)) == sum(map(len, held)):
            self._dual = dual
            return
        holders = Counter(chain.from_iterable(held))
        for partition in [partition for partition, count in holders.items() if count > 1]:
            queue = self._cluster.queues.get(partition.queue)
            let_in = sum(
                partition in consumer.holds
                and queue is not None
                and (not queue.fenced or self._cluster.records.accepts(partition, consumer.uid, consumer.holds[partition]))
                for consumer in self._cluster.fleet.values()
            )
            if let_in > 1:
                dual.add(partition)
        self.dual_ownership += len(dual - self._dual)
        self._dual = dual
