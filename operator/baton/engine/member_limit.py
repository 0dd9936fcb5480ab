"""For how many members there is something to own: the rest stand by."""

from collections import Counter

from baton.api.enums import ScaleMode
from baton.engine.draft import Draft
from baton.model.ids import MemberId, QueueName

Reads = frozenset[QueueName]


class MemberLimit:
    """Member slots one member after the other, as long as each can have a partition of a queue that it reads.

    An exclusive queue has room for one, another for as many as it has partitions. Where everybody reads everything this says:
    fewer members than partitions. Where subscriptions differ, members make room for each other: one that could also have a
    partition of another queue does not keep out one that could not.

    Where the desired size is known, pods above it find no room until an older one goes (rule 7).
    """

    def __init__(self, draft: Draft, *, vacant_too: bool = False) -> None:
        """Vacant slots that wait for their static member are taken; others only if `vacant_too`."""
        self._draft = draft
        self._free = {
            queue: min(facts.partitions, 1) if facts.exclusive else facts.partitions for queue, facts in draft.queues.items()
        }
        self._inside: dict[QueueName, Counter[Reads]] = {queue: Counter() for queue in draft.queues}
        # A driver removes what is too many (victims); everybody else's pods come and go by themselves.
        self._size = draft.spec.replicas if draft.spec.scale_mode is not ScaleMode.SPARK else None
        self._members = 0
        for slot in draft.member_slots:
            if slot.vacated is not None and (vacant_too or slot.expires is not None):
                self._fit(frozenset(partition.queue for partition in slot.vacated))

    def add(self, member: MemberId) -> None:
        """It has a place, whatever the room."""
        self._fit(self._draft.subscribed(member))
        self._members += 1

    def add_if_room(self, member: MemberId) -> bool:
        """Takes it in if there is something for it."""
        if self._size is not None and self._members >= self._size:
            return False
        if not self._fit(self._draft.subscribed(member)):
            return False
        self._members += 1
        return True

    def _fit(self, reads: Reads) -> bool:
        """Finds a queue with room, if need be by sending others on to other queues that they read (an augmenting path)."""
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
