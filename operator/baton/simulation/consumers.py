"""The consumers' side: processes that read their own key of the ledger, and let go as fast as they can, or never."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from baton.engine.observation import ObservedMember
from baton.engine.state import moment
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.ranges import Grants
from baton.model.session import Release


@dataclass(slots=True)
class SimulatedConsumer:
    """One live process. It acts on what it holds until it has let go, whatever the ledger says meanwhile."""

    name: MemberId
    seen: ObservedMember
    release: float | None
    """Seconds from being told to having let go; None: never."""
    ready: bool = True
    """It works on all the same, and its session is renewed."""
    entry: MemberEntry | None = None
    holds: dict[Partition, Epoch] = field(default_factory=dict)
    due: dict[Partition, float] = field(default_factory=dict)
    """When it will have let go."""
    words: set[Release] = field(default_factory=set)

    @property
    def uid(self) -> Uid:
        return self.seen.uid

    @property
    def away(self) -> bool:
        """It takes no part, and may still work."""
        return not self.ready and not self.seen.terminating

    @property
    def idle(self) -> bool:
        """Its key owns and revokes nothing."""
        return self.entry is None or not (self.entry.owned or self.entry.revoking)

    def told(self, entry: MemberEntry | None, now: float) -> dict[Partition, Epoch]:
        """Its key of the ledger changed. A key with another UID was written for an earlier pod. Returns its new grants."""
        self.entry = entry if entry is not None and entry.uid == self.uid else None
        owned = _flat(self.entry.owned) if self.entry is not None else {}
        revoking = _flat(self.entry.revoking) if self.entry is not None else {}
        new = {partition: epoch for partition, epoch in owned.items() if self.holds.get(partition) != epoch}
        for partition, epoch in owned.items():
            self.holds[partition] = epoch
            self.due.pop(partition, None)
        spoken = {(Partition(word.queue, word.partition), word.epoch) for word in self.words}
        for partition, epoch in revoking.items():
            if (partition, epoch) not in spoken:
                self.holds[partition] = epoch  # one that was restarted in place first works on what it has not let go of
        for partition in self.holds:
            if partition not in owned and partition not in self.due and self.release is not None:
                self.due[partition] = moment(now + self.release)
        self.words = {w for w in self.words if revoking.get(Partition(w.queue, w.partition)) == w.epoch}
        return new

    def let_go(self, now: float) -> list[Partition]:
        """Carries out the releases that are due, and says so."""
        done = sorted(partition for partition, at in self.due.items() if at <= now)
        for partition in done:
            del self.due[partition]
            self.words.add(Release(self.uid, partition.queue, partition.number, self.holds.pop(partition)))
        return done


def _flat(queues: Mapping[QueueName, Grants]) -> dict[Partition, Epoch]:
    return {Partition(queue, number): epoch for queue, grants in queues.items() for number, epoch in grants.items()}
