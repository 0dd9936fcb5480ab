"""Who else is in a group: members of Kafka's own protocols would read the same, and commit over the owner records."""

from aiokafka.protocol.admin import DescribeGroupsRequest

from baton.queues.kafka.answers import Code
from baton.queues.kafka.client import KafkaClient, TooOld
from baton.queues.kafka.guard import CLIENT_ID
from baton.queues.kafka.messages import ConsumerGroupMembers
from baton.queues.protocol import QueueConflict

_NO_SUCH_GROUP, _DEAD = 69, "Dead"
"""Either says that there has been neither a commit nor a member yet; or that its members speak the other protocol."""
_UNSUPPORTED_VERSION = 35


async def refuse_members(client: KafkaClient, topic: str) -> None:
    """Raises QueueConflict where there are any, of the classic protocol or that of KIP-848."""
    others: set[str] = set()

    async def classic() -> int:
        answer = await client.to_group(DescribeGroupsRequest([client.group]))
        code, _, state, _, _, members, *_ = answer.groups[0]
        if code == _NO_SUCH_GROUP or state == _DEAD:
            return await kip_848()
        others.update(_named(one[1], one[2]) for one in members if one[1] != CLIENT_ID)
        return int(code)

    async def kip_848() -> int:
        try:
            answer = await client.to_group(ConsumerGroupMembers(client.group))
        except TooOld:  # for that protocol
            return Code.NONE
        code, _, _, _, _, _, _, members, *_ = answer.groups[0]
        others.update(_named(one[4], one[5]) for one in members if one[4] != CLIENT_ID)
        return Code.NONE if code in (_NO_SUCH_GROUP, _UNSUPPORTED_VERSION) else int(code)

    await client.until_taken("the question for the group's members", classic, topic)
    if others:
        named = ", ".join(sorted(others)[:3])
        raise QueueConflict(
            f"The group {client.group} of {client.address.place} has members of Kafka's own protocol: {named}. Stop them; "
            "work begins when they are gone, where they have left off"
        )


def _named(client_id: str, host: str) -> str:
    return f"{client_id} ({host.lstrip('/')})"
