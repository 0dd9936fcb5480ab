"""What a ledger tells and a queue says of a pod's partitions, in short."""

from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.ranges import parse_grants
from baton.queues.protocol import Heard

ME, UID, ORDERS = MemberId("pod"), Uid("me"), QueueName("orders")
FIVE = Partition(ORDERS, 5)


def entry(owned: str = "", revoking: str = "") -> MemberEntry:
    return MemberEntry("shop/orders", ME, UID, 1, True, {ORDERS: parse_grants(owned)}, {ORDERS: parse_grants(revoking)})


def record(text: str) -> Heard:
    """`me@12`, `me@12 paused`, `nobody@13`."""
    grant, _, paused = text.partition(" ")
    uid, _, epoch = grant.partition("@")
    return Heard(None if uid == "nobody" else Uid(uid), Epoch(int(epoch)), paused == "paused")


def grants(one: MemberEntry) -> tuple[dict[int, Epoch], dict[int, Epoch]]:
    """Owned and called back."""
    return dict(one.owned.get(ORDERS, {})), dict(one.revoking.get(ORDERS, {}))
