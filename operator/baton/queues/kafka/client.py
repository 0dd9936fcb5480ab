"""A client for the requests of the fence: it finds the coordinators, and says in sentences what is wrong with a cluster.

aiokafka brings connections, TLS and SASL.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from zlib import crc32

from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, RequestTimedOutError
from aiokafka.protocol.coordination import FindCoordinatorRequest

from baton.model.wording import quoted
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.answers import NONE_ANSWERS, PASSING, STALE, Code, StaleToken, refused
from baton.queues.kafka.connecting import connected
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

ANSWERS_WITHIN = 4.0
"""Seconds for one request, and"""
PASSES_WITHIN = 5.0
"""for which one is asked again that is refused for a moment,"""
LOADS_WITHIN = 20.0
"""or by a coordinator that still reads what the one before it has written."""
ASKED_WITHIN = 60.0
"""Seconds for a question of several requests, with what it takes to connect: a slow broker takes a second or more for each of
some forty answers."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_NO_BROKER = "it names no broker"
"""That has just begun, or is about to end, it may tell of none, not even itself."""
_SLOW = (
    "see whether it has come to a stop or has too much to do, and whether as many replicas are in sync as "
    "min.insync.replicas says"
)
"""A coordinator answers after five seconds only where its log takes nothing."""
_SETTLES_ELSEWHERE = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE})


_AT_ONCE = 2
"""Requests that are under way on a connection: the time for an answer counts from when they were sent. Another is there when the
broker has answered one."""
_LANES = (ConnectionGroup.DEFAULT, 2, 3, 4)
"""Connections to a broker: it answers one request of each at a time, and a hand-off has some for each of its partitions."""


def _lane(transactional_id: str) -> int:
    return int(_LANES[crc32(transactional_id.encode()) % len(_LANES)]) if transactional_id else int(ConnectionGroup.DEFAULT)


class TooOld(QueueUnreachable):
    """The brokers do not know a request."""


class BrokerLost(QueueUnreachable):
    """One broker of several takes no connection, or has ended one: another may have its part in a moment."""


class KafkaClient:
    """Of one group. Used in one event loop. Its methods raise QueueUnreachable; the next call connects again, and does not ask
    a broker for what another can tell while that one is away."""

    def __init__(self, address: KafkaAddress, group: str, client_id: str, *, answers_within: float = ANSWERS_WITHIN) -> None:
        """`answers_within`: seconds for one request."""
        self.address = address
        self.group = group
        self._client_id = client_id
        self._answers_within = answers_within
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._turns: dict[tuple[int, int], asyncio.Semaphore] = {}
        """By broker and connection."""
        self._losses: dict[int, QueueUnreachable] = {}
        """The last of each broker."""
        self._coordinators: dict[tuple[int, str], int] = {}
        self._away: set[int] = set()
        """Brokers that did not answer when they were last asked."""

    async def to_group(self, request: Any, *, transactional_id: str = "") -> Any:
        """To the group's coordinator. `transactional_id`: it is part of this one's transaction."""
        return await self._send(await self._coordinator(CoordinationType.GROUP, self.group), request, _lane(transactional_id))

    async def to_transactions(self, transactional_id: str, request: Any) -> Any:
        """To the coordinator of this transactional id."""
        coordinator = await self._coordinator(CoordinationType.TRANSACTION, transactional_id)
        return await self._send(coordinator, request, _lane(transactional_id))

    async def to_anybody(self, request: Any) -> Any:
        """To the brokers in turn, until one takes it."""
        client = await self._connected()
        nodes = [broker.nodeId for broker in client.cluster.brokers()]
        if not nodes:
            raise await self._lost(client, None, ConnectionError(_NO_BROKER))
        random.shuffle(nodes)
        *first, last = sorted(nodes, key=self._away.__contains__)
        for node in first:
            with suppress(BrokerLost):
                return await self._send(node, request)
        return await self._send(last, request)

    async def to_broker(self, node: int, request: Any) -> Any:
        return await self._send(node, request)

    async def until_taken(self, what: str, ask: Callable[[], Awaitable[int]], topic: str, transactional_id: str = "") -> None:
        """Ask until it is taken: `ask` answers the error code, and may be repeated. Raises StaleToken and QueueUnreachable; of a
        transactional id, which is one partition's, PartitionUnavailable where it was not taken for too long."""
        begun, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                code = await ask()
            except BrokerLost as lost:
                if time.monotonic() - begun >= PASSES_WITHIN:
                    raise (PartitionUnavailable(str(lost)) if transactional_id else lost) from None
                code = Code.COORDINATOR_NOT_AVAILABLE
            if code == Code.NONE:
                return
            if code in STALE:
                raise StaleToken(what)
            if not _passes(code, time.monotonic() - begun):
                refusal = self.refused(what, code, topic, transactional_id)
                raise PartitionUnavailable(str(refusal)) if transactional_id and code in PASSING else refusal
            if code in _SETTLES_ELSEWHERE:
                self._coordinators.clear()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def refused(self, what: str, code: int, topic: str, transactional_id: str = "") -> QueueUnreachable:
        """A sentence with the cure."""
        address = self.address
        return refused(
            address.place, what, code, who=address.who, topic=topic, group=self.group, transactional_id=transactional_id
        )

    async def close(self) -> None:
        """It may be used again."""
        client, self._client = self._client, None
        self._coordinators.clear()
        self._away.clear()
        if client is not None:
            with suppress(KafkaError, OSError, TimeoutError):
                await client.close()

    async def _coordinator(self, kind: int, key: str) -> int:
        answered_at, pause = None, _FIRST_PAUSE
        while (found := self._coordinators.get((kind, key))) is None:
            answer = await self.to_anybody(FindCoordinatorRequest(key, kind))
            code = int(answer.error_code)
            if code == Code.NONE:
                self._coordinators[kind, key] = found = int(answer.coordinator_id)
                break
            answered_at = answered_at or time.monotonic()  # the first answer has taken what it takes to connect, too
            if not _passes(code, time.monotonic() - answered_at):
                refusal = self.refused("the question for a coordinator", code, "", key)
                own = kind == CoordinationType.TRANSACTION and code in PASSING
                raise PartitionUnavailable(str(refusal)) if own else refusal
            await asyncio.sleep(pause)  # its topic is being made, or read
            pause = min(2 * pause, _LONGEST_PAUSE)
        return found

    async def _send(self, node: int, request: Any, lane: int = ConnectionGroup.DEFAULT) -> Any:
        known = self._losses.get(node)
        async with self._turns.setdefault((node, int(lane)), asyncio.Semaphore(_AT_ONCE)):
            if (loss := self._losses.get(node)) is not None and loss is not known:
                raise type(loss)(str(loss))  # whoever has waited with the one that was lost does not wait once more
            return await self._send_now(node, request, lane)

    async def _send_now(self, node: int, request: Any, lane: int) -> Any:
        client = await self._connected()
        try:
            if client.cluster.broker_metadata(node) is None:
                raise KafkaError(f"the others do not know broker {node} yet")
            answer = await client.send(node, request, group=lane)
        except IncompatibleBrokerVersion:
            raise TooOld(f"{self.address.place} is too old: take Kafka 2.8, or a later one") from None
        except (KafkaError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self._losses[node] = await self._lost(client, node, error)
            raise self._losses[node] from None
        self._away.discard(node)
        return answer

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                self._client = await connected(self.address, self._client_id, self._answers_within)
            return self._client

    async def _lost(self, client: Any, node: int | None, error: Exception) -> QueueUnreachable:
        """Where other brokers are left, they are asked where to go now. Else the next request connects again."""
        others = {broker.nodeId for broker in client.cluster.brokers()} - self._away - {node}
        if self._client is client:
            if others and node is not None:
                self._away.add(node)
                self._coordinators = {key: one for key, one in self._coordinators.items() if one != node}
                client.force_metadata_update()
            else:
                await self.close()
        place = f"{self.address.place}: its broker {node}" if others else self.address.place
        lost = BrokerLost if others else QueueUnreachable
        if isinstance(error, TimeoutError | RequestTimedOutError):
            return lost(f"{place} did not answer within {self._answers_within:g} s: {_SLOW}")
        return lost(f"{place} does not answer ({quoted(str(error), 200)}): {NONE_ANSWERS}")


def _passes(code: int, waited: float) -> bool:
    """It is to be asked again, after it has been for so many seconds."""
    return code in PASSING and waited < (LOADS_WITHIN if code == Code.COORDINATOR_LOAD_IN_PROGRESS else PASSES_WITHIN)
