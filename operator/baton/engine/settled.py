"""The conditions at rest, balanced and settled of a group."""

from baton.engine.draft import Draft
from baton.engine.evenness import evenly_spread
from baton.engine.holddown import unserved
from baton.engine.member_slots import newcomers, slot_holders
from baton.engine.state import KnownQueue


def at_rest(draft: Draft) -> bool:
    """No hand-off runs or is planned or proposed, no holddown runs, and no slot is vacant."""
    under_way = draft.holddown is not None or draft.waiting or draft.proposal is not None
    return (
        not under_way
        and all(move.quiet for move in draft.moves.values())
        and all(slot.vacated is None for slot in draft.member_slots)
    )


def balanced(draft: Draft) -> bool:
    """The group is at rest, and its members own the partitions as the assignor in use would plan it.

    Members and partitions that came during a pause count too, so they make the group unbalanced.
    """
    return (
        bool(draft.queues)
        and _follows_queues(draft)
        and at_rest(draft)
        and evenly_spread(draft, slot_holders(draft))
        and not unserved(draft)
        and not newcomers(draft)
    )


def settled(draft: Draft) -> bool:
    """The group is balanced, each owner is a member that its queue has recorded, and nothing keeps the engine from acting.

    A group without queues or without members is not settled.
    """
    free_to_act = not draft.spec.paused and not draft.observation.held_back and draft.problem is None
    served = all(owner in draft.eligible for owner, partitions in draft.owned.items() if partitions)
    return free_to_act and bool(draft.eligible) and not draft.moves and served and balanced(draft)


def _follows_queues(draft: Draft) -> bool:
    """The group has taken in all changes of its queues. A pause, or a ledger without room, delays them."""
    seen = draft.observation.queues
    known = {queue: KnownQueue(one.partitions, one.exclusive) for queue, one in seen.items()}
    return known == {queue: one._replace(incarnation=None) for queue, one in draft.queues.items()}
