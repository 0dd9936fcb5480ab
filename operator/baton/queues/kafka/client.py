"""A client for the requests of the fence: connections, coordinators, and messages that say what is wrong with a cluster.

aiokafka provides connections, TLS and SASL. Its protocol classes and connections are undocumented, so no other module imports
them.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.conn import create_conn
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as ConsumerProtocolMemberMetadata
from aiokafka.errors import IllegalSaslStateError, IncompatibleBrokerVersion, KafkaError, RequestTimedOutError
from aiokafka.partitioner import murmur2 as murmur2
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.admin import DescribeGroupsRequest as DescribeGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest as OffsetCommitRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import HeartbeatRequest as HeartbeatRequest
from aiokafka.protocol.group import JoinGroupRequest as JoinGroupRequest
from aiokafka.protocol.group import LeaveGroupRequest as LeaveGroupRequest
from aiokafka.protocol.group import SyncGroupRequest as SyncGroupRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest as OffsetRequest
from aiokafka.protocol.produce import ProduceRequest as ProduceRequest
from aiokafka.protocol.transaction import AddOffsetsToTxnRequest as AddOffsetsToTxnRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest as AddPartitionsToTxnRequest
from aiokafka.protocol.transaction import EndTxnRequest as EndTxnRequest
from aiokafka.protocol.transaction import InitProducerIdRequest as InitProducerIdRequest
from aiokafka.protocol.transaction import TxnOffsetCommitRequest as TxnOffsetCommitRequest
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields
from aiokafka.record.default_records import DefaultRecordBatchBuilder as DefaultRecordBatchBuilder
from confluent_kafka import KafkaError as Code

from baton.model.retrying import doubling
from baton.model.wording import quoted
from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

# -- Brokers' error codes, and their cures.

PASSING = frozenset(
    {
        Code.UNKNOWN,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_FOR_PARTITION,
    }
)
"""Errors that pass: the request is repeated. UNKNOWN may answer an EndTxn that meets an init; the next answer shows the
outcome."""
STALE = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.INVALID_PRODUCER_ID_MAPPING, Code.PRODUCER_FENCED})
"""Another token is in force."""

NONE_ANSWERS = "check whether its brokers run, and whether their disks have room"
"""The cure if no broker answers: a broker whose disk is full ends itself."""
TRANSACTIONS_TOOL = "kafka-transactions.sh"


class StaleToken(Exception):  # noqa: N818 - a fact about the caller
    """The token is not the latest of its transactional id."""


def foreign_transaction(group: str, topic: str, partitions: str = "") -> str:
    """Return the problem and its cure. `partitions`: their numbers; empty: one partition."""
    where = f"partitions {partitions} of {topic}" if partitions else topic
    return (
        f"a foreign transaction is open over the offset of the group {group} in {where}: until it ends no pod can take the "
        f"partition up, and an offset that it commits counts. {TRANSACTIONS_TOOL} list names its producer (Ongoing, and not "
        f"baton.…): let that program end it, or end it with {TRANSACTIONS_TOOL} forceTerminateTransaction --transactionalId, and "
        "check who may READ the group"
    )


# -- Kafka requests that aiokafka lacks, or lacks in the version that the fence needs.

_TEXT = CompactString("utf-8")
_NO_TOPIC_ID = "0" * 32


class TopicId(AbstractType):  # type: ignore[misc] # aiokafka is not typed
    """Sixteen bytes, as hexadecimal digits."""

    @classmethod
    def encode(cls, value: str) -> bytes:
        return bytes.fromhex(value)

    @classmethod
    def decode(cls, data: Any) -> str:
        return str(data.read(16).hex())


def _tagged(*fields: tuple[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Add what flexible versions have at the end: tags, which are ignored."""
    return (*fields, ("tags", TaggedFields))


def _exchange(key: int, version: int, asked: Sequence[tuple[str, Any]], answered: Sequence[tuple[str, Any]]) -> Any:
    """Return the class of a request in this flexible version, with its answer."""
    names = {"API_KEY": key, "API_VERSION": version}
    answer = type("Answer", (Response,), {**names, "SCHEMA": Schema(*_tagged(("throttle_time_ms", Int32), *answered))})
    question = {**names, "FLEXIBLE_VERSION": True, "RESPONSE_TYPE": answer, "SCHEMA": Schema(*_tagged(*asked))}
    return type("Question", (RequestStruct,), question)


_committed_partition = CompactArray(
    *_tagged(("partition", Int32), ("offset", Int64), ("leader_epoch", Int32), ("metadata", _TEXT), ("error_code", Int16))
)
_OFFSET_FETCH = _exchange(
    9,
    7,  # the first version with require_stable: no offset from before a commit under way
    [
        ("group", _TEXT),
        ("topics", CompactArray(*_tagged(("name", _TEXT), ("partitions", CompactArray(Int32))))),
        ("require_stable", Boolean),
    ],
    [("topics", CompactArray(*_tagged(("name", _TEXT), ("partitions", _committed_partition)))), ("error_code", Int16)],
)


class CommittedOffsets(Request[_OFFSET_FETCH]):  # type: ignore[misc] # likewise
    """Committed offsets of a group: of some partitions of a topic, or of all."""

    API_KEY = 9

    def __init__(
        self, group: str, topic: str | None = None, partitions: tuple[int, ...] = (), *, beside_pending: bool = False
    ) -> None:
        """`beside_pending`: for partitions with a commit under way, ask for the commit before it."""
        self._group = group
        self._beside_pending = beside_pending
        self._topics: Any = None if topic is None else [(topic, list(partitions), {})]

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(self._group, self._topics, not self._beside_pending, {})


_broker = CompactArray(*_tagged(("id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT)))
_partition = CompactArray(
    *_tagged(
        ("error_code", Int16),
        ("number", Int32),
        ("leader", Int32),
        ("leader_epoch", Int32),
        ("replicas", CompactArray(Int32)),
        ("in_sync", CompactArray(Int32)),
        ("offline", CompactArray(Int32)),
    )
)
_topic = CompactArray(
    *_tagged(
        ("error_code", Int16),
        ("name", _TEXT),
        ("id", TopicId),
        ("internal", Boolean),
        ("partitions", _partition),
        ("operations", Int32),
    )
)
_METADATA = _exchange(
    3,
    12,
    [("topics", CompactArray(*_tagged(("id", TopicId), ("name", _TEXT)))), ("make", Boolean), ("operations", Boolean)],
    [("brokers", _broker), ("cluster_id", _TEXT), ("controller", Int32), ("topics", _topic)],
)


class TopicMetadata(Request[_METADATA]):  # type: ignore[misc] # likewise
    """One topic's metadata with its id; does not create the topic."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([(_NO_TOPIC_ID, self._topic, {})], False, False, {})


_assignment = Schema(
    *_tagged(("partitions", CompactArray(*_tagged(("id", TopicId), ("name", _TEXT), ("numbers", CompactArray(Int32))))))
)
_member = CompactArray(
    *_tagged(
        *((name, _TEXT) for name in ("id", "instance", "rack")),
        ("epoch", Int32),
        ("client_id", _TEXT),
        ("client_host", _TEXT),
        ("topics", CompactArray(_TEXT)),
        ("topic_pattern", _TEXT),
        ("assignment", _assignment),
        ("target", _assignment),
    )
)
_group = CompactArray(
    *_tagged(
        ("error_code", Int16),
        *((name, _TEXT) for name in ("error_message", "id", "state")),
        ("epoch", Int32),
        ("assignment_epoch", Int32),
        ("assignor", _TEXT),
        ("members", _member),
        ("operations", Int32),
    )
)
_CONSUMER_GROUP_DESCRIBE = _exchange(69, 0, [("groups", CompactArray(_TEXT)), ("operations", Boolean)], [("groups", _group)])


class ConsumerGroupMembers(Request[_CONSUMER_GROUP_DESCRIBE]):  # type: ignore[misc] # likewise
    """The members of a group that uses the protocol of KIP-848."""

    API_KEY = 69

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([self._group], False, {})


# -- The first connection to a cluster, to the first bootstrap server that answers.
#
# A server that does not answer (its process is stopped, its machine is cut off) must not keep a client from the others.

_NEXT_AFTER = 0.5
"""Seconds after which the next server is tried as well."""
_ANSWERS = 6
"""Answers that connecting takes: one for the connection, one for versions, three for SASL, one for the brokers."""
_LAST_ANSWER = 0.2
"""Seconds that a cancelled attempt has to end by itself: aiokafka leaves a connection open if it is cancelled while it waits for
the names of brokers."""
_ERRORS = (KafkaError, OSError, TimeoutError, asyncio.IncompleteReadError)


async def connected(address: KafkaAddress, client_id: str, within: float) -> Any:
    """Return a client that knows the cluster's brokers. `within`: seconds for each server, and later for each request. Raises
    QueueUnreachable with the problem and its cure."""
    parts = address.for_aiokafka()

    async def to(server: str) -> Any:
        client = AIOKafkaClient(client_id=client_id, request_timeout_ms=int(within * 1000), bootstrap_servers=[server], **parts)
        begun = asyncio.ensure_future(client.bootstrap())
        try:
            async with asyncio.timeout(_ANSWERS * within):
                await asyncio.shield(begun)
        except BaseException:
            try:
                await asyncio.wait({begun}, timeout=_LAST_ANSWER)
            finally:
                begun.cancel()
            with suppress(asyncio.CancelledError, *_ERRORS):
                await begun
            with suppress(*_ERRORS):
                await client.close()
            raise
        return client

    servers = random.sample(address.servers, len(address.servers))
    try:
        return await _first(servers, to)
    except _ERRORS as error:
        raise QueueUnreachable(f"{address.place} {await _why(address, error, within)}") from None


async def _first(servers: Sequence[str], connect: Callable[[str], Awaitable[Any]]) -> Any:
    """Return the first connection. Raises the last error if there is none."""
    trying: set[asyncio.Future[Any]] = set()
    waiting = list(servers)
    error: BaseException | None = None
    try:
        while trying or waiting:
            if waiting:
                trying.add(asyncio.ensure_future(connect(waiting.pop(0))))
            ended, trying = await asyncio.wait(
                trying, timeout=_NEXT_AFTER if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for one in ended:
                if (error := one.exception()) is None:
                    trying |= ended - {one}
                    return one.result()
    finally:
        await asyncio.gather(*map(_given_up, trying))
    assert error is not None
    raise error


async def _given_up(attempt: "asyncio.Future[Any]") -> None:
    attempt.cancel()
    with suppress(asyncio.CancelledError, *_ERRORS):
        await (await attempt).close()  # the attempt had just connected


async def _why(address: KafkaAddress, error: Exception, within: float) -> str:
    """Return why no broker could be reached, which aiokafka does not tell. A refusal comes before a broker that is away."""
    found = await asyncio.gather(*(_refusal(address, server, error, within) for server in address.servers))
    told = [why for why in found if not why.startswith("does not answer")]
    return (told or found)[0]


async def _refusal(address: KafkaAddress, server: str, error: Exception, within: float) -> str:
    host, _, port = server.rpartition(":")
    parts = address.for_aiokafka()
    try:
        async with asyncio.timeout(_ANSWERS * within):
            connection = await create_conn(host.strip("[]"), int(port), request_timeout_ms=int(within * 1000), **parts)
            try:
                await connection.send(
                    MetadataRequest([])
                )  # a port that requires SASL answers a request for versions all the same
            finally:
                connection.close()
    except _ERRORS as known:
        error = known
    if isinstance(error, IllegalSaslStateError):
        return f"asks for no user at port {port}, but the user {address.user} is given: use the port that does, or give no user"
    if "Authentication" in type(error).__name__ or "uthentication" in str(error) or "SASL" in type(error).__name__.upper():
        return address.refused
    if address.tls and not address.certificate and "closed" in str(error):  # TLS 1.3 gives no reason
        return "closes the connection: give a client certificate and its key, if it asks for one"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "shows a certificate that is not trusted: give the CA that signed it"
    if isinstance(error, TimeoutError | RequestTimedOutError):
        return (
            f"does not answer within {within:g} s: check whether its brokers run, and on these ports, whether one hangs or is "
            "overloaded, and whether their disks have room; or correct the address"
        )
    seen = quoted(str(error) or type(error).__name__, 200)
    if isinstance(error, ssl.SSLError | ConnectionResetError | asyncio.IncompleteReadError) or "closed" in str(error):
        return (
            f"accepts a connection at port {port} and closes it ({seen}). The protocol used is {address.protocol}: give a user "
            "if the port requires SASL, and use TLS only if the port does; or the broker is just shutting down"
        )
    return (
        f"does not answer ({seen}): check whether its brokers run, and on these ports, and whether their disks have room; or "
        "correct the address"
    )


# -- A group's client.

ANSWERS_WITHIN = 4.0
"""Seconds for one request."""
PASSES_WITHIN = 5.0
"""Seconds for which a request is repeated after a passing error."""
LOADS_WITHIN = 20.0
"""Seconds for which a request is repeated while a new coordinator still loads its log."""
ASKED_WITHIN = 60.0
"""Seconds for several requests together, including connecting: a slow broker takes a second or more for each of some forty
answers."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_NO_BROKER = "its metadata has no broker"
"""A broker that has just started, or is shutting down, may name none, not even itself."""
_SLOW = "check whether it hangs or is overloaded, and whether as many replicas are in sync as min.insync.replicas requires"
"""A coordinator answers only after five seconds if its log accepts nothing."""
_SETTLES_ELSEWHERE = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE})


_AT_ONCE = 2
"""Requests in flight on a connection: one is answered and one waits. More would wait at the broker while their time runs."""
_LANES = (ConnectionGroup.DEFAULT, 2, 3, 4)
"""Connections to a broker, which answers one request of each at a time: a hand-off has several for each of its partitions."""


def _lane(transactional_id: str) -> int:
    return int(_LANES[crc32(transactional_id.encode()) % len(_LANES)]) if transactional_id else int(ConnectionGroup.DEFAULT)


class TooOld(QueueUnreachable):
    """The brokers do not know this request."""


class BrokerLost(QueueUnreachable):
    """One broker of several refuses or closes connections; another may take its place in a moment."""


class KafkaClient:
    """The client of one group. For use in one event loop. Methods raise QueueUnreachable; the next call connects again, and
    avoids a broker that is away if another can answer."""

    def __init__(self, address: KafkaAddress, group: str, client_id: str, *, answers_within: float = ANSWERS_WITHIN) -> None:
        """`answers_within`: seconds for one request."""
        self.address = address
        self.group = group
        self._client_id = client_id
        self._answers_within = answers_within
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._turns: dict[tuple[int, int], asyncio.Semaphore] = {}
        """Limits requests in flight, by broker and connection."""
        self._losses: dict[int, QueueUnreachable] = {}
        """The last one of each broker."""
        self._coordinators: dict[tuple[int, str], int] = {}
        self._away: set[int] = set()
        """Brokers that did not answer the last request."""

    async def to_group(self, request: Any, *, transactional_id: str = "") -> Any:
        """Send to the group's coordinator. `transactional_id`: of the transaction that the request belongs to."""
        coordinator = await self._coordinator(CoordinationType.GROUP, self.group)
        return await self.to_broker(coordinator, request, _lane(transactional_id))

    async def to_transactions(self, transactional_id: str, request: Any) -> Any:
        """Send to the coordinator of this transactional id."""
        coordinator = await self._coordinator(CoordinationType.TRANSACTION, transactional_id)
        return await self.to_broker(coordinator, request, _lane(transactional_id))

    async def to_any(self, request: Any) -> Any:
        """Send to the brokers in turn, until one takes it."""
        client = await self._connected()
        nodes = [broker.nodeId for broker in client.cluster.brokers()]
        if not nodes:
            raise await self._lost(client, None, ConnectionError(_NO_BROKER))
        random.shuffle(nodes)
        *first, last = sorted(nodes, key=self._away.__contains__)
        for node in first:
            with suppress(BrokerLost):
                return await self.to_broker(node, request)
        return await self.to_broker(last, request)

    async def to_broker(self, node: int, request: Any, lane: int = ConnectionGroup.DEFAULT) -> Any:
        """Send to this broker. `lane`: one of _LANES."""
        known = self._losses.get(node)
        async with self._turns.setdefault((node, int(lane)), asyncio.Semaphore(_AT_ONCE)):
            if (loss := self._losses.get(node)) is not None and loss is not known:
                raise type(loss)(str(loss))  # the request has waited with the lost one
            return await self._send_now(node, request, lane)

    async def until_taken(
        self,
        what: str,
        ask: Callable[[], Awaitable[Any]],
        topic: str,
        transactional_id: str = "",
        code_of: Callable[[Any], int] = lambda answer: answer.error_code,
    ) -> Any:
        """Repeat a request until it succeeds, and return the answer; `code_of` returns its error code. Raises StaleToken and
        QueueUnreachable; PartitionUnavailable if a request with a transactional id, which is one partition's, fails for too
        long."""
        begun = time.monotonic()
        for pause in doubling(_FIRST_PAUSE, _LONGEST_PAUSE):
            try:
                code = code_of(answer := await ask())
            except BrokerLost as lost:
                if time.monotonic() - begun >= PASSES_WITHIN:
                    raise (PartitionUnavailable(str(lost)) if transactional_id else lost) from None
                code = Code.COORDINATOR_NOT_AVAILABLE
            if code == Code.NO_ERROR:
                return answer
            if code in STALE:
                raise StaleToken(what)
            if not _passes(code, time.monotonic() - begun):
                refusal = self.refused(what, code, topic, transactional_id)
                raise PartitionUnavailable(str(refusal)) if transactional_id and code in PASSING else refusal
            if code in _SETTLES_ELSEWHERE:
                self._coordinators.clear()
            await asyncio.sleep(pause)
        raise AssertionError

    def refused(self, what: str, code: int, topic: str, transactional_id: str = "") -> QueueUnreachable:
        """Return an error with the problem and its cure."""
        who, group, answered = self.address.who, self.group, f"{what} was answered by {Code(code).name()}"
        match code:
            case Code.UNKNOWN_TOPIC_OR_PART:
                why = f"there is no topic {topic}, or {who} may not see it: create it, or correct spec.source.kafka.topic"
            case Code.TOPIC_AUTHORIZATION_FAILED:
                why = f"{who} may not READ the topic {topic}: allow it by an ACL"
            case Code.GROUP_AUTHORIZATION_FAILED:
                why = f"{who} may not READ the group {group}: allow it by an ACL"
            case Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                why = f"{who} may not WRITE the transactional id {transactional_id}: allow it by a prefixed ACL on baton.{group}/"
            case Code.CLUSTER_AUTHORIZATION_FAILED:
                why = f"{who} may not do it: {Code(code).name()}"
            case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
                why = (
                    f"{answered}: the coordinator of the group {group} is away, or fewer replicas of __consumer_offsets or "
                    "__transaction_state are in sync than min.insync.replicas: check whether all brokers run; if they do, the "
                    "coordinator could not load the group's offsets, as its log says: restart that broker"
                )
            case Code.COORDINATOR_LOAD_IN_PROGRESS:
                why = f"the coordinator of the group {group} still loads its offsets: wait, and check whether it has enough disk"
            case Code.LEADER_NOT_AVAILABLE | Code.NOT_LEADER_FOR_PARTITION:
                why = f"a partition of {topic} has no leader: check whether all brokers run"
            case Code.KAFKA_STORAGE_ERROR:
                why = f"{answered}: a broker's disk is full or broken: repair it, and restart the broker"
            case Code.UNSTABLE_OFFSET_COMMIT:
                why = foreign_transaction(group, topic)
            case _:
                why = answered
        return QueueUnreachable(f"{self.address.place}: {why}")

    async def close(self) -> None:
        """Close the connections. The client may be used again."""
        client, self._client = self._client, None
        self._coordinators.clear()
        self._away.clear()
        if client is not None:
            with suppress(KafkaError, OSError, TimeoutError):
                await client.close()

    async def _coordinator(self, kind: int, key: str) -> int:
        answered_at, pauses = None, doubling(_FIRST_PAUSE, _LONGEST_PAUSE)
        while (found := self._coordinators.get((kind, key))) is None:
            answer = await self.to_any(FindCoordinatorRequest(key, kind))
            code = int(answer.error_code)
            if code == Code.NO_ERROR:
                self._coordinators[kind, key] = found = int(answer.coordinator_id)
                break
            answered_at = answered_at or time.monotonic()  # the first answer includes the time to connect
            if not _passes(code, time.monotonic() - answered_at):
                refusal = self.refused("FindCoordinator", code, "", key)
                own = kind == CoordinationType.TRANSACTION and code in PASSING
                raise PartitionUnavailable(str(refusal)) if own else refusal
            await asyncio.sleep(next(pauses))  # its topic is being created or loaded
        return found

    async def _send_now(self, node: int, request: Any, lane: int) -> Any:
        client = await self._connected()
        try:
            if client.cluster.broker_metadata(node) is None:
                raise KafkaError(f"the other brokers do not know broker {node} yet")
            answer = await client.send(node, request, group=lane)
        except IncompatibleBrokerVersion:
            raise TooOld(f"{self.address.place} is too old: use Kafka 2.8 or later") from None
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
        """Return the error of a lost broker. If other brokers are left, they are asked for coordinators from now on; otherwise
        the next request connects again."""
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
    """Whether to repeat a request that has been tried for so many seconds."""
    return code in PASSING and waited < (LOADS_WITHIN if code == Code.COORDINATOR_LOAD_IN_PROGRESS else PASSES_WITHIN)
