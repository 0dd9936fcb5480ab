"""Other members of a group: those of Kafka's own protocols would read the same partitions, and overwrite the owner records."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError as Code

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import (
    ANSWERS_WITHIN,
    PASSING,
    ConsumerGroupMembers,
    ConsumerProtocolMemberMetadata,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    KafkaClient,
    LeaveGroupRequest,
    SyncGroupRequest,
    TooOld,
)
from baton.queues.protocol import QueueConflict, QueueUnreachable

# -- The guard member: while the operator itself is in the group, no plain commit can overwrite an owner record.
#
# Kafka accepts a commit without a token only from a member, or while the group has none. So the operator joins, with a protocol
# that no consumer has: clients that subscribe under the group's name are refused (INCONSISTENT_GROUP_PROTOCOL), and so are plain
# commits (UNKNOWN_MEMBER_ID). Offsets of a topic that a member subscribes to do not expire either.

log = logging.getLogger(__name__)

PROTOCOL = "baton"
CLIENT_ID = "baton-operator"
_SESSION = 10.0
_BEAT = 2.0
_JOINS_WITHIN = _SESSION + 5.0
"""Seconds. If a member ended without leaving, no other can join before the broker considers it gone."""
_PAUSE = 1.0
_MISSED_AFTER = 2 * _JOINS_WITHIN
"""Seconds outside the group after which that is reported."""
_NO_MEMBER = ""


class GuardMember:
    """The guard of one group, for one topic. It tries to be in the group until it is closed. It has its own client, because its
    slow requests must not end the connections of others."""

    def __init__(self, address: KafkaAddress, group: str, topic: str) -> None:
        self._client = KafkaClient(address, group, CLIENT_ID, answers_within=_JOINS_WITHIN)
        self._topic = topic
        self._member = _NO_MEMBER
        self._generation = -1
        self._out_since = 0.0
        """Since when it has tried to join (monotonic)."""
        self._why = ""
        """The last refusal or error."""
        self._task: asyncio.Task[None] | None = None

    @property
    def joined(self) -> bool:
        return self._generation >= 0

    def start(self) -> None:
        """Start (idempotent)."""
        if self._task is None:
            self._out_since = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="baton-guard")

    def warnings(self) -> tuple[str, ...]:
        """Return a warning if it has been outside the group for long, with the reason."""
        if self._task is None or self.joined or time.monotonic() - self._out_since < _MISSED_AFTER:
            return ()
        client = self._client
        return (
            f"{client.address.place}: the operator cannot join the group {client.group} ({self._why or 'no answer'}), so any "
            "user who may READ it can overwrite the offsets of its pods, and these may expire: check whether the brokers' "
            f"group.min.session.timeout.ms is above {_SESSION * 1000:.0f}, and what they log about the group",
        )

    async def leave(self) -> None:
        """Leave the group: others may have it."""
        await self._stop()
        if self._member:
            with suppress(QueueUnreachable, TimeoutError):
                async with asyncio.timeout(ANSWERS_WITHIN):
                    await self._client.to_group(LeaveGroupRequest(self._client.group, self._member))
        await self.close()

    async def close(self) -> None:
        """Stop without leaving: the member stays in the group for _SESSION, until which the next guard has joined."""
        await self._stop()
        await self._client.close()
        self._member, self._generation = _NO_MEMBER, -1

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                if await self._join():
                    await self._beat()
            except QueueUnreachable as problem:
                self._out(str(problem))
            except Exception as error:  # nothing awaits this task: an error must neither end it nor go unnoticed
                if repr(error) != self._why:
                    log.exception("the guard of group %s had an unexpected error; retrying", self._client.group)
                self._out(repr(error))
            await asyncio.sleep(_PAUSE)

    async def _join(self) -> bool:
        """Return False if it was refused, for now."""
        milliseconds = int(_SESSION * 1000)
        group = self._client.group
        protocols = [(PROTOCOL, ConsumerProtocolMemberMetadata(0, [self._topic], None).encode())]
        request = JoinGroupRequest(group, milliseconds, milliseconds, self._member, None, "consumer", protocols)
        answer = await self._ask(request)
        if answer.error_code == Code.MEMBER_ID_REQUIRED:
            self._member = answer.member_id
            return await self._join()
        if answer.error_code:
            return self._refused("JoinGroup", answer.error_code)
        self._member = answer.member_id
        members: Sequence[Any] = answer.members
        assignments = [(member[0], b"") for member in members] if answer.leader_id == self._member else []
        synced = await self._ask(SyncGroupRequest(group, answer.generation_id, self._member, None, assignments))
        if synced.error_code:
            return self._refused("SyncGroup", synced.error_code)
        self._generation = answer.generation_id
        return True

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            answer = await self._ask(HeartbeatRequest(self._client.group, self._generation, self._member))
            if answer.error_code:
                self._refused("Heartbeat", answer.error_code)
                return

    async def _ask(self, request: Any) -> Any:
        """Return the answer of the group's present coordinator, which may move from broker to broker at any time."""

        def code(answer: Any) -> int:
            return int(answer.error_code) if answer.error_code in PASSING else Code.NO_ERROR

        what, ask = type(request).__name__.removesuffix("Request"), partial(self._client.to_group, request)
        return await self._client.until_taken(what, ask, self._topic, code_of=code)

    def _refused(self, what: str, code: int) -> bool:
        """Note that it is not in the group; returns False."""
        if code in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION):
            self._member = _NO_MEMBER
        self._out(f"{what} was answered by {Code(code).name()}")
        return False

    def _out(self, why: str) -> None:
        if self.joined:
            self._generation, self._out_since = -1, time.monotonic()
        self._why = why


_DEAD = "Dead"
"""The state of a group without commits and members, or whose members use the other protocol, as GROUP_ID_NOT_FOUND."""


async def refuse_members(client: KafkaClient, topic: str) -> None:
    """Raise QueueConflict if the group has members of the classic protocol or of KIP-848."""
    others: set[str] = set()

    async def classic() -> int:
        answer = await client.to_group(DescribeGroupsRequest([client.group]))
        code, _, state, _, _, members, *_ = answer.groups[0]
        if code == Code.GROUP_ID_NOT_FOUND or state == _DEAD:
            return await kip_848()
        others.update(_named(one[1], one[2]) for one in members if one[1] != CLIENT_ID)
        return int(code)

    async def kip_848() -> int:
        try:
            answer = await client.to_group(ConsumerGroupMembers(client.group))
        except TooOld:  # the broker does not know that protocol
            return Code.NO_ERROR
        code, _, _, _, _, _, _, members, *_ = answer.groups[0]
        others.update(_named(one[4], one[5]) for one in members if one[4] != CLIENT_ID)
        return Code.NO_ERROR if code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION) else int(code)

    await client.until_taken("DescribeGroups", classic, topic, code_of=int)
    if others:
        named = ", ".join(sorted(others)[:3])
        raise QueueConflict(
            f"The group {client.group} of {client.address.place} has members of Kafka's own protocol: {named}. Stop them; "
            "Baton begins when they are gone, at their offsets"
        )


def _named(client_id: str, host: str) -> str:
    return f"{client_id} ({host.lstrip('/')})"
