"""What is said to a group whose queue is another's: whose it is, and the two cures."""

from re import ASCII, fullmatch

from baton.model.names import TAKE_OVER_ANNOTATION
from baton.queues.protocol import Claimant


def claimed_by_other(queue: str, claimant: Claimant, group: bytes | None, uid: bytes) -> str:
    """`group` and `uid` are as the server has them recorded."""
    other, other_uid = _readable(group or b""), _readable(uid)
    namespace, _, name = claimant.group.partition("/")
    cure = (
        f"If that group is gone for good, take the queue over: kubectl annotate consumergroup {name} -n {namespace} --overwrite "
        f"{TAKE_OVER_ANNOTATION}={other_uid}"
    )
    if other != claimant.group:
        return (
            f"The Redis queue {queue} belongs to the ConsumerGroup {other} (uid {other_uid}), and has room for one. Delete that "
            f"group, or give {claimant.group} a queue of its own. {cure}"
        )
    return (
        f"The Redis queue {queue} belongs to another ConsumerGroup {other}, with the uid {other_uid}; this one's is "
        f"{claimant.uid}. It is a group of another cluster, or an earlier one that went without giving the queue up. If another "
        f"cluster has it, give this queue a Redis or a database of its own. {cure}"
    )


def _readable(recorded: bytes) -> str:
    text = recorded.decode(errors="replace")
    return text if fullmatch(r"[a-zA-Z0-9./-]{1,320}", text, ASCII) else "(unreadable)"
