"""Who else is in a group: members of Kafka's own protocols would read the same, and commit over the owner records."""

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
    error_name,
)
from baton.queues.protocol import QueueConflict, QueueUnreachable

# -- The guard member: while the operator is in the group itself, no plain commit can overwrite an owner record.
#
# Kafka takes a commit without a token only while the group has no members, or from one of them. So the operator joins,
# with a protocol that no consumer has: who subscribes with the group's name is refused (INCONSISTENT_GROUP_PROTOCOL), and
# who commits plainly too (UNKNOWN_MEMBER_ID). Offsets of a topic that a member subscribes to do not expire either.

log = logging.getLogger(__name__)

PROTOCOL = "baton"
CLIENT_ID = "baton-operator"
_SESSION = 10.0
_BEAT = 2.0
_JOINS_WITHIN = _SESSION + 5.0
"""Seconds: after a member that ended without leaving, no other joins before the broker takes it for gone."""
_PAUSE = 1.0
_MISSED_AFTER = 2 * _JOINS_WITHIN
"""Seconds that the operator may be kept out of the group before that is reported."""
_NO_MEMBER = ""


class GuardMember:
    """Of one group, for one topic. It keeps at it until it is closed. It has a client of its own, for what is slow to be answered
    here must not end another's connections."""

    def __init__(self, address: KafkaAddress, group: str, topic: str) -> None:
        self._client = KafkaClient(address, group, CLIENT_ID, answers_within=_JOINS_WITHIN)
        self._topic = topic
        self._member = _NO_MEMBER
        self._generation = -1
        self._out_since = 0.0
        """Since when it wants to be in the group, and is not (monotonic),"""
        self._why = ""
        """and what it was told last."""
        self._task: asyncio.Task[None] | None = None

    @property
    def joined(self) -> bool:
        """It is in the group."""
        return self._generation >= 0

    def start(self) -> None:
        """Does nothing if it has begun."""
        if self._task is None:
            self._out_since = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="baton-guard")

    def warnings(self) -> tuple[str, ...]:
        """That it has been out of the group for a while, though it wants to be in it, and why."""
        if self._task is None or self.joined or time.monotonic() - self._out_since < _MISSED_AFTER:
            return ()
        client = self._client
        return (
            f"{client.address.place}: the operator is not let into the group {client.group} ({self._why or 'it has no answer'}), "
            "so any user who may READ it can overwrite the offsets of its pods, and these may expire: see whether the "
            f"brokers' group.min.session.timeout.ms is above {_SESSION * 1000:.0f}, and what they log about the group",
        )

    async def leave(self) -> None:
        """The group: others may have it."""
        await self._stop()
        if self._member:
            with suppress(QueueUnreachable, TimeoutError):
                async with asyncio.timeout(ANSWERS_WITHIN):
                    await self._client.to_group(LeaveGroupRequest(self._client.group, self._member))
        await self.close()

    async def close(self) -> None:
        """Go without a word: the group has this member for _SESSION, and by then the next guard."""
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
            except Exception as error:  # nothing awaits this task, and the group must not stay without a guard unnoticed
                if repr(error) != self._why:
                    log.exception("the guard of group %s had an unexpected error, and tries again", self._client.group)
                self._out(repr(error))
            await asyncio.sleep(_PAUSE)

    async def _join(self) -> bool:
        """False: it is refused, for now."""
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
        """Until the group changes."""
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
        """It is not in the group: False."""
        if code in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION):
            self._member = _NO_MEMBER
        self._out(f"{what} was answered by {error_name(code)}")
        return False

    def _out(self, why: str) -> None:
        if self.joined:
            self._generation, self._out_since = -1, time.monotonic()
        self._why = why


_DEAD = "Dead"
"""As GROUP_ID_NOT_FOUND it says that there has been neither a commit nor a member yet; or that its members speak the other
protocol."""


async def refuse_members(client: KafkaClient, topic: str) -> None:
    """Raises QueueConflict where there are any, of the classic protocol or that of KIP-848."""
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
        except TooOld:  # for that protocol
            return Code.NO_ERROR
        code, _, _, _, _, _, _, members, *_ = answer.groups[0]
        others.update(_named(one[4], one[5]) for one in members if one[4] != CLIENT_ID)
        return Code.NO_ERROR if code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION) else int(code)

    await client.until_taken("the question for the group's members", classic, topic, code_of=int)
    if others:
        named = ", ".join(sorted(others)[:3])
        raise QueueConflict(
            f"The group {client.group} of {client.address.place} has members of Kafka's own protocol: {named}. Stop them; "
            "work begins when they are gone, where they have left off"
        )


def _named(client_id: str, host: str) -> str:
    return f"{client_id} ({host.lstrip('/')})"
