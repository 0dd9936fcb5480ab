"""The most members that can own a partition. The others stand by."""

from collections import Counter

from baton.api.enums import ScaleMode
from baton.engine.draft import Draft
from baton.model.ids import MemberId, QueueName

Reads = frozenset[QueueName]


class MemberLimit:
    """Takes members one by one, as long as each can own a partition of a queue that it reads.

    An exclusive queue has room for one member, any other queue for as many as it has partitions. If subscriptions differ, a
    member that can also own a partition of another queue does not keep out one that cannot.

    If the desired size is known, pods above it have no room until an older pod goes (rule 7).
    """

    def __init__(self, draft: Draft, *, vacant_too: bool = False) -> None:
        """Reserved slots count as taken; other vacant slots do so only if `vacant_too`."""
        self._draft = draft
        self._free = {
            queue: min(facts.partitions, 1) if facts.exclusive else facts.partitions for queue, facts in draft.queues.items()
        }
        self._inside: dict[QueueName, Counter[Reads]] = {queue: Counter() for queue in draft.queues}
        # In mode Spark the driver removes the victims, so the size needs no limit here.
        self._size = draft.spec.replicas if draft.spec.scale_mode is not ScaleMode.SPARK else None
        self._members = 0
        for slot in draft.member_slots:
            if slot.vacated is not None and (vacant_too or slot.expires is not None):
                self._fit(frozenset(partition.queue for partition in slot.vacated))

    def add(self, member: MemberId) -> None:
        """Count a member that has a slot, whether or not there is a partition for it."""
        self._fit(self._draft.subscribed(member))
        self._members += 1

    def add_if_room(self, member: MemberId) -> bool:
        """Count a member and return True, if there is a partition for it and the desired size allows it."""
        if self._size is not None and self._members >= self._size:
            return False
        if not self._fit(self._draft.subscribed(member)):
            return False
        self._members += 1
        return True

    def _fit(self, reads: Reads) -> bool:
        """Find a partition for a member with these queues.

        If all its queues are full, members that fit elsewhere are moved to their other queues (an augmenting path).
        """
        reached: dict[QueueName, tuple[QueueName, Reads] | None] = dict.fromkeys(sorted(reads), None)
        todo = list(reached)
        while todo:
            queue = todo.pop(0)
            if self._free[queue]:
                self._free[queue] -= 1
                while (step := reached[queue]) is not None:
                    before, others = step
                    self._inside[before][others] -= 1
                    self._inside[queue][others] += 1
                    queue = before
                self._inside[queue][reads] += 1
                return True
            for others, count in sorted(self._inside[queue].items(), key=lambda item: sorted(item[0])):
                for further in sorted(others - reached.keys()) if count else ():
                    reached[further] = (queue, others)
                    todo.append(further)
        return False
