"""Whether a group has come to rest, and how."""

from baton.engine.draft import Draft
from baton.engine.evenness import evenly_spread
from baton.engine.holddown import unserved
from baton.engine.member_slots import newcomers, slot_holders
from baton.engine.state import KnownQueue


def at_rest(draft: Draft) -> bool:
    """Nothing changes hands, and nothing is planned, proposed, held down or kept for anybody."""
    under_way = draft.holddown is not None or draft.waiting or draft.proposal is not None
    return (
        not under_way
        and all(move.quiet for move in draft.moves.values())
        and all(slot.vacated is None for slot in draft.member_slots)
    )


def balanced(draft: Draft) -> bool:
    """At rest, and the partitions are spread among the members as the assignor in use has it. Somebody who came in a pause, and
    for whom there is a partition, is a member too; and so is a partition that came then one to be spread."""
    return (
        bool(draft.queues)
        and _follows_queues(draft)
        and at_rest(draft)
        and evenly_spread(draft, slot_holders(draft))
        and not unserved(draft)
        and not newcomers(draft)
    )


def settled(draft: Draft) -> bool:
    """Balanced; every partition is with a member that its queue knows as its owner; and nothing keeps the engine from acting on
    what it is shown. A group without queues or members has nothing that could settle."""
    free_to_act = not draft.spec.paused and not draft.observation.held_back and draft.problem is None
    served = all(owner in draft.eligible for owner, partitions in draft.owned.items() if partitions)
    return free_to_act and bool(draft.eligible) and not draft.moves and served and balanced(draft)


def _follows_queues(draft: Draft) -> bool:
    """The queues are as they were taken in last: a pause, and a ledger without room, keep changes for later."""
    seen = draft.observation.queues
    known = {queue: KnownQueue(one.partitions, one.exclusive) for queue, one in seen.items()}
    return known == {queue: one._replace(incarnation=None) for queue, one in draft.queues.items()}
